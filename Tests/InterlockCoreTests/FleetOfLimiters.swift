import InterlockCore

/// The limiters of several sidecars with one Redis, in virtual time. Each one always has waiting callers.
struct FleetOfLimiters {
    private enum Phase {
        case idle
        case asking(ServiceBatch, sentAt: Instant, judgedAt: Instant)
        case answered(BatchVerdict, of: ServiceBatch, sentAt: Instant, arrivesAt: Instant)
    }

    private final class Sidecar {
        var limiter: ServiceLimiter
        var phase = Phase.idle
        var nextID = 0
        var granted: [Int] = []
        var nextStepAt = Instant.distantFuture

        init(_ definition: LimitDefinition) {
            limiter = ServiceLimiter(definitions: [definition], maximumWaiting: 10_000)
        }
    }

    private let sidecars: [Sidecar]
    private var redis = LocalCounters()
    private var random: SeededRandom
    private var now = Instant(nanoseconds: 1_000_000_000_000)

    init(of count: Int, _ definition: LimitDefinition, waiting: Int, seed: UInt64) {
        random = SeededRandom(seed: seed)
        sidecars = (0..<count).map { _ in Sidecar(definition) }
        for index in sidecars.indices {
            for _ in 0..<waiting { enter(index) }
            scheduleStep(of: index)
        }
    }

    /// The number of granted calls of each sidecar.
    var grantCounts: [Int] { sidecars.map(\.granted.count) }
    /// The callers in the order in which each sidecar served them.
    var served: [[Int]] { sidecars.map(\.granted) }

    private mutating func enter(_ index: Int) {
        let request = LimitRequest(id: sidecars[index].nextID, deadline: .distantFuture)
        sidecars[index].nextID += 1
        _ = sidecars[index].limiter.admit(request, now: now)
    }

    /// Runs the sidecars for this much virtual time.
    mutating func run(forMilliseconds milliseconds: Int64) {
        let end = now.advanced(byMilliseconds: milliseconds)
        while now < end {
            guard let index = sidecars.indices.min(by: { sidecars[$0].nextStepAt < sidecars[$1].nextStepAt }),
                sidecars[index].nextStepAt < end
            else { return now = end }
            now = max(now, sidecars[index].nextStepAt)
            step(index)
            scheduleStep(of: index)
        }
    }

    private mutating func scheduleStep(of index: Int) {
        let sidecar = sidecars[index]
        sidecar.nextStepAt =
            switch sidecar.phase {
            case .idle: sidecar.limiter.nextWakeUp(now: now) ?? (sidecar.limiter.hasArrivals ? now : .distantFuture)
            case .asking(_, _, let judgedAt): judgedAt
            case .answered(_, _, _, let arrivesAt): arrivesAt
            }
    }

    private mutating func step(_ index: Int) {
        switch sidecars[index].phase {
        case .idle:
            guard let batch = sidecars[index].limiter.nextBatch(now: now, sidecars: sidecars.count) else {
                preconditionFailure("a sidecar is due and has no batch to send")
            }
            sidecars[index].phase = .asking(batch, sentAt: now, judgedAt: travel())
        case .asking(let batch, let sentAt, _):
            let verdict = redis.evaluate(batch.limits, now: now)
            sidecars[index].phase = .answered(verdict, of: batch, sentAt: sentAt, arrivesAt: travel())
        case .answered(let verdict, let batch, let sentAt, _):
            var resolutions: [ServiceLimiter.CallResolution] = []
            sidecars[index].phase = .idle
            sidecars[index].limiter.apply(
                verdict, of: batch, sentAt: sentAt, now: now, sidecars: sidecars.count, into: &resolutions)
            for resolution in resolutions where resolution.decision.isAllowed {
                sidecars[index].granted.append(resolution.id)
                enter(index)
            }
        }
    }

    /// Returns the arrival time of a message, after about 50 to 250 microseconds.
    private mutating func travel() -> Instant {
        now.advanced(byMicroseconds: 50 + Int64(random.next() % 200))
    }
}

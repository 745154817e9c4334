import InterlockCore
import Testing

/// The guarantees of the algorithms, checked on random calls against a simple count.
@Suite("Limits by each algorithm")
struct LimitAlgorithmTests {
    private struct Grant {
        var at: Int64
        var cost: Int64
    }

    private let start = Instant(nanoseconds: 5_000_000_000_000)

    /// Makes calls at random times, in bursts and at the edges of windows. Returns the granted ones, in microseconds.
    private func grants(_ definition: LimitDefinition, sidecars: Int = 1, seed: UInt64, calls: Int = 1500) -> [Grant] {
        var random = SeededRandom(seed: seed)
        var limiter = ServiceLimiter(definitions: [definition], maximumWaiting: 50)
        var counters = LocalCounters()
        var now = start
        var costs: [Int: Int64] = [:]
        var grants: [Grant] = []
        for id in 0..<calls {
            let window = definition.windowMilliseconds * 1000
            switch random.next() % 4 {
            case 0: now = now.advanced(byMicroseconds: Int64(random.next() % UInt64(window / 3)))
            case 1: now = now.advanced(byMicroseconds: 1)
            case 2: if let last = grants.last { now = max(now, at(last.at + window - Int64(random.next() % 3) + 1)) }
            default: break
            }
            let cost = Int64(random.next() % UInt64(min(3, definition.capacity))) + 1
            let wait = random.next() % 3 == 0 ? now.advanced(byMicroseconds: Int64(random.next() % UInt64(2 * window))) : nil
            costs[id] = cost
            _ = limiter.admit(LimitRequest(id: id, cost: cost, deadline: wait), now: now)
            guard random.next() % 3 > 0, let batch = limiter.nextBatch(now: now) else { continue }
            var resolutions: [ServiceLimiter.CallResolution] = []
            let judgedAt = now
            let verdict = counters.evaluate(batch.limits, sidecars: sidecars, now: now)
            limiter.apply(verdict, of: batch, sentAt: now, now: now, into: &resolutions)
            for resolution in resolutions where resolution.decision.isAllowed {
                grants.append(Grant(at: judgedAt.nanoseconds / 1000, cost: costs[resolution.id] ?? 0))
            }
            var expired: [ServiceLimiter.CallResolution] = []
            limiter.expire(now: now, into: &expired)
        }
        return grants
    }

    private func at(_ microseconds: Int64) -> Instant { Instant(nanoseconds: microseconds * 1000) }

    /// Returns the maximum cost granted within `length` of any grant; `isClosed` includes the end of that interval.
    private func maximumGranted(_ grants: [Grant], within length: Int64, isClosed: Bool) -> Int64 {
        var maximum: Int64 = 0
        for (index, first) in grants.enumerated() {
            var sum: Int64 = 0
            for grant in grants[index...] {
                guard grant.at - first.at < length + (isClosed ? 1 : 0) else { break }
                sum += grant.cost
            }
            maximum = max(maximum, sum)
        }
        return maximum
    }

    @Test(
        "No closed window holds more than a sliding limit, wherever it starts", arguments: [1, 2, 7, 40], [1, 2, 3] as [UInt64])
    func noWindowExceedsSlidingLimit(limit: Int64, seed: UInt64) {
        let definition = LimitDefinition(name: "w", limit: limit, window: .milliseconds(700), algorithm: .sliding)
        #expect(maximumGranted(grants(definition, seed: seed), within: 700_000, isClosed: true) <= limit)
    }

    @Test("No half-open window holds more than a gcra limit and its burst", arguments: [1, 3, 7, 40], [0, 1, 5] as [Int64])
    func gcra(limit: Int64, burst: Int64) {
        let definition = LimitDefinition(name: "w", limit: limit, window: .milliseconds(700), algorithm: .gcra(burst: burst))
        for seed in [1, 2, 3] as [UInt64] {
            #expect(maximumGranted(grants(definition, seed: seed), within: 700_000, isClosed: false) <= limit + burst)
        }
    }

    @Test("A gcra limit never grants more than its burst + 1 at once", arguments: [0, 1, 5] as [Int64])
    func gcraGrantsAtMostBurstPlusOne(burst: Int64) {
        let definition = LimitDefinition(name: "w", limit: 7, window: .milliseconds(700), algorithm: .gcra(burst: burst))
        #expect(maximumGranted(grants(definition, seed: 4), within: 1, isClosed: false) == burst + 1)
    }

    @Test("A sidecar's local quota of a sliding limit holds in any window of the sidecar's clock", arguments: [2, 3] as [Int])
    func slidingQuota(sidecars: Int) {
        let definition = LimitDefinition(name: "w", limit: 30, window: .milliseconds(700), algorithm: .sliding)
        let grants = grants(definition, sidecars: sidecars, seed: 5)
        #expect(maximumGranted(grants, within: 700_000, isClosed: true) == 30 / Int64(sidecars))
    }

    @Test("A sidecar's local quota of a gcra limit has its portion of the rate and of the burst")
    func gcraQuota() {
        let definition = LimitDefinition(name: "w", limit: 30, window: .milliseconds(700), algorithm: .gcra(burst: 8))
        let grants = grants(definition, sidecars: 3, seed: 6)
        #expect(maximumGranted(grants, within: 1, isClosed: false) == 3)
        #expect(maximumGranted(grants, within: 700_000, isClosed: false) <= 10 + 3)
    }

    @Test(
        "A call that returns at its retry time is granted, and one that returns a microsecond earlier is not",
        arguments: [.fixed, .sliding, .gcra(burst: 3)] as [LimitAlgorithm], [3, 7, 97] as [Int64])
    func callAtRetryTimeIsGranted(algorithm: LimitAlgorithm, limit: Int64) {
        let definition = LimitDefinition(name: "w", limit: limit, window: .milliseconds(100), algorithm: algorithm)
        var random = SeededRandom(seed: UInt64(limit))
        var counters = LocalCounters()
        var now = start
        for _ in 0..<400 {
            now = now.advanced(byMicroseconds: Int64(random.next() % 3000))
            let cost = Int64(random.next() % 3) + 1
            let verdict = evaluate(definition, cost: cost, &counters, now)
            guard verdict.fits[0].count == 0 else { continue }
            let wait = verdict.fits[0].retryAfterMicroseconds
            // Redis reports fixed windows in whole milliseconds.
            if algorithm != .fixed {
                var early = counters
                #expect(evaluate(definition, cost: cost, &early, now.advanced(byMicroseconds: wait - 1)).fits[0].count == 0)
            }
            now = now.advanced(byMicroseconds: wait)
            #expect(evaluate(definition, cost: cost, &counters, now).fits[0].count == 1)
        }
    }

    @Test(
        "Grants made without Redis are kept until they no longer count",
        arguments: [.fixed, .sliding, .gcra(burst: 3)] as [LimitAlgorithm])
    func grantsMadeWithoutRedisAreKept(algorithm: LimitAlgorithm) {
        let definition = LimitDefinition(name: "1s", limit: 4, window: .seconds(1), algorithm: algorithm)
        var counters = LocalCounters()
        #expect(counters.isExpired(at: start))
        #expect(evaluate(definition, cost: 4, &counters, start).fits[0].count == 1)
        #expect(!counters.isExpired(at: start.advanced(byMilliseconds: 999)))
        #expect(counters.isExpired(at: start.advanced(byMilliseconds: 1002)))
    }

    private func evaluate(
        _ definition: LimitDefinition, cost: Int64, _ counters: inout LocalCounters, _ now: Instant
    ) -> BatchVerdict {
        var limiter = ServiceLimiter(definitions: [definition], maximumWaiting: 0)
        _ = limiter.admit(LimitRequest(id: 0, cost: cost), now: now)
        guard let batch = limiter.nextBatch(now: now) else { preconditionFailure("the call was just admitted") }
        return counters.evaluate(batch.limits, now: now)
    }

    @Test("Fractions of a microsecond add up so that a limit of 7 always grants 7 in each window")
    func microsecondFractionsAddUp() {
        let definition = LimitDefinition(name: "w", limit: 7, window: .milliseconds(1), algorithm: .gcra(burst: 0))
        var counters = LocalCounters()
        var now = start
        var granted = 0
        while now < start.advanced(byMilliseconds: 1000) {
            let verdict = evaluate(definition, cost: 1, &counters, now)
            if verdict.fits[0].count == 1 {
                granted += 1
            } else {
                now = now.advanced(byMicroseconds: verdict.fits[0].retryAfterMicroseconds)
            }
        }
        // Each grant is up to a microsecond late, of 142 6/7 microseconds.
        #expect((6960...7001).contains(granted))
    }

    @Test("A rate whose burst takes centuries to refill is inexact, and the largest configurable rate is exact")
    func extremelySlowRateIsInexact() {
        let year: Int64 = 366 * 86_400 * 1_000_000
        #expect(CellRate(limit: 1, windowMicroseconds: year, capacity: 100).isExact)
        #expect(!CellRate(limit: 1, windowMicroseconds: year, capacity: 101).isExact)
        #expect(CellRate(limit: 1_000_000_000, windowMicroseconds: year, capacity: 1_000_001).isExact)
    }
}

internal import InterlockCore

/// Checks that a limit refuses no caller more than a second after capacity became free. A sidecar may rely on a
/// remembered refusal for up to that long.
///
/// Free capacity is known from a grant that left some, and after Redis lost its data and every sidecar had time to
/// notice. Every later call reduces it by its cost unless the call is known to have been refused; waiting calls count
/// too.
///
/// The checker judges only services with a single limit that all subjects share. It judges nothing during a fault that
/// silences a sidecar or cuts it off from Redis, or within the recovery time after it. A jump of the Redis clock
/// discards the known capacity. Uses O(services + clients) memory.
struct RefusalChecker: HistoryChecker {
    static let invariant = Invariant.refusals

    /// How long a sidecar may rely on a refusal, in milliseconds.
    private static let refusalLifetime: Int64 = 1000
    /// The tolerance for delayed answers and inaccurate clocks, in milliseconds.
    private static let tolerance: Int64 = 200

    private struct FreeCapacity: Sendable {
        /// The free capacity at `knownSince`, less the cost of later calls.
        var amount: Int64
        var knownSince: Instant
        /// The source of the information, for findings.
        var source: String
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private var capacities: [Int: FreeCapacity] = [:]
    /// The cost of active calls, by service.
    private var inFlight: [Int: Int64] = [:]
    /// The cost that ended calls may have taken so far, by service.
    private var taken: [Int: Int64] = [:]
    /// The value of `taken` when Redis last began to lose its data.
    private var takenBeforeWipe: [Int: Int64] = [:]
    /// The cost of refused calls that had waited, by service. While they waited, they delayed later calls.
    private var awaited: [Int: Int64] = [:]
    /// The values of `taken` and `awaited` when the active call of a client was invoked.
    private var before: [Int: (taken: Int64, awaited: Int64)] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        recovery = rules.recovery
    }

    private func isJudged(_ service: Int) -> Bool {
        let limits = services[service].limits
        return limits.count == 1 && !limits[0].isPerSubject
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            inFlight[demand.service, default: 0] += demand.cost
            before[call.client] = (taken[demand.service, default: 0], awaited[demand.service, default: 0])
        case .ended(let call, let ending, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            inFlight[demand.service, default: 0] -= demand.cost
            ended(call, demand, ending, at: step.at, faults: faults, into: &violations)
        case .faultBegan(_, let kind, _) where kind.mayCause(.clockJump),
            .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            // Losing a counter only frees capacity, but after a clock jump, Redis may use the full counter of another
            // time.
            capacities = [:]
        case .faultBegan(_, let kind, _) where kind.mayCause(.emptyRedis):
            takenBeforeWipe = taken
        case .faultEnded(_, let kind, _) where kind.mayCause(.emptyRedis):
            emptied(at: step.at)
        default:
            return
        }
    }

    /// Call when Redis lost all counters.
    private mutating func emptied(at instant: Instant) {
        for service in services.indices where isJudged(service) {
            let limit = services[service].limits[0]
            switch limit.algorithm {
            case .fixed, .sliding: break
            // GCRA may grant fewer calls in a burst than its limit.
            case .gcra: continue
            }
            capacities[service] = FreeCapacity(
                amount: limit.limit - inFlight[service, default: 0] - taken[service, default: 0]
                    + takenBeforeWipe[service, default: 0],
                // The recovery time excuses refusals that the fault left behind.
                knownSince: instant.advanced(byMilliseconds: recovery + 1), source: "an empty Redis")
        }
    }

    private mutating func ended(
        _ call: Call, _ demand: Call.Demand, _ ending: OperationEnding, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let service = demand.service
        let before = before.removeValue(forKey: call.client) ?? (0, 0)
        switch ending {
        case .done(.taken(_, let remaining, _)):
            // Active calls may have taken some of it and may have been answered sooner.
            let meanwhile = inFlight[service, default: 0] + taken[service, default: 0] - before.taken
            take(demand.cost, of: service)
            guard remaining > 0,
                !faults.wasActive(.outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery))
            else { return }
            capacities[service] = FreeCapacity(
                amount: remaining - meanwhile, knownSince: instant, source: "sidecar \(call.sidecar)")
        case .refused(.limited(let retryAfter)):
            let wanted = inFlight[service, default: 0] + awaited[service, default: 0] - before.awaited
            if call.operation.wait > 0 { awaited[service, default: 0] += demand.cost }
            guard let capacity = capacities[service], retryAfter >= 0, capacity.amount - wanted >= demand.cost,
                call.invoked > capacity.knownSince.advanced(byMilliseconds: Self.refusalLifetime + Self.tolerance),
                !faults.wasActive(.outage, since: capacity.knownSince.advanced(byMilliseconds: -recovery)),
                !faults.wasActive(.silence, since: capacity.knownSince.advanced(byMilliseconds: -recovery))
            else { return }
            let since = (call.invoked.nanoseconds - capacity.knownSince.nanoseconds) / 1_000_000
            capacities[service] = nil
            report(
                at: instant, into: &violations,
                """
                \(services[service].name): sidecar \(call.sidecar) refused client \(call.client) for \(retryAfter) ms, although \
                \(capacity.amount) were free \(since) ms before, according to \(capacity.source)
                """)
        case .refused: return
        default: take(demand.cost, of: service)
        }
    }

    private mutating func take(_ cost: Int64, of service: Int) {
        taken[service, default: 0] += cost
        capacities[service]?.amount -= cost
    }
}

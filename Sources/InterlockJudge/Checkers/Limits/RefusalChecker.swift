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

    /// The maximum time for which a sidecar relies on a refusal, in milliseconds.
    private static let refusalLifetimeMilliseconds: Int64 = 1000
    /// The tolerance for delayed answers and inaccurate clocks, in milliseconds.
    private static let toleranceMilliseconds: Int64 = 200
    private static let maximumRefusalMilliseconds = refusalLifetimeMilliseconds + toleranceMilliseconds

    private struct FreeCapacity: Sendable {
        /// The free capacity at `knownSince`, less the cost of later calls.
        var amount: Int64
        var knownSince: Instant
        /// The source of the information, for findings.
        var source: String
    }

    private let services: [ServiceRules]
    private let recoveryMilliseconds: Int64
    private var capacities: [Int: FreeCapacity] = [:]
    /// The cost of active calls, by service.
    private var activeCost: [Int: Int64] = [:]
    /// The cost that ended calls may have taken so far, by service.
    private var takenCost: [Int: Int64] = [:]
    /// The values of `takenCost` when Redis last began to lose its data.
    private var takenCostBeforeWipe: [Int: Int64] = [:]
    /// The cost of refused calls that had waited, by service. They delayed later calls while they waited.
    private var awaitedCost: [Int: Int64] = [:]
    /// The values of `takenCost` and `awaitedCost` when a client's active call was invoked, by client.
    private var costsBefore: [Int: (taken: Int64, awaited: Int64)] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        recoveryMilliseconds = rules.recoveryMilliseconds
    }

    private func isJudged(_ service: Int) -> Bool {
        let limits = services[service].limits
        return limits.count == 1 && !limits[0].isPerSubject
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            activeCost[demand.service, default: 0] += demand.cost
            costsBefore[call.client] = (takenCost[demand.service, default: 0], awaitedCost[demand.service, default: 0])
        case .ended(let call, let ending, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            activeCost[demand.service, default: 0] -= demand.cost
            callEnded(call, demand, ending, at: step.at, faults: faults, into: &violations)
        case .faultBegan(_, let kind, _) where kind.mayCause(.clockJump),
            .faultEnded(_, let kind, _) where kind.mayCause(.clockJump):
            // Losing a counter only frees capacity, but after a clock jump, Redis may use the full counter of another
            // time.
            capacities = [:]
        case .faultBegan(_, let kind, _) where kind.mayCause(.emptyRedis):
            takenCostBeforeWipe = takenCost
        case .faultEnded(_, let kind, _) where kind.mayCause(.emptyRedis):
            redisEmptied(at: step.at)
        default:
            return
        }
    }

    /// Records the capacity of each limit after Redis has lost all counters.
    private mutating func redisEmptied(at instant: Instant) {
        for service in services.indices where isJudged(service) {
            let limit = services[service].limits[0]
            switch limit.algorithm {
            case .fixed, .sliding: break
            // GCRA may grant fewer calls in a burst than its limit.
            case .gcra: continue
            }
            capacities[service] = FreeCapacity(
                amount: limit.limit - activeCost[service, default: 0] - takenCost[service, default: 0]
                    + takenCostBeforeWipe[service, default: 0],
                // The recovery time excuses refusals that the fault left behind.
                knownSince: instant.advanced(byMilliseconds: recoveryMilliseconds + 1), source: "an empty Redis")
        }
    }

    private mutating func callEnded(
        _ call: Call, _ demand: Call.Demand, _ ending: OperationEnding, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let service = demand.service
        let costsBefore = costsBefore.removeValue(forKey: call.client) ?? (0, 0)
        switch ending {
        case .done(.taken(_, let remaining, _)):
            // Active calls may have taken some of it and may have been answered sooner.
            let concurrentCost = activeCost[service, default: 0] + takenCost[service, default: 0] - costsBefore.taken
            recordTaken(demand.cost, of: service)
            guard remaining > 0,
                !faults.wasActive(
                    .outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recoveryMilliseconds))
            else { return }
            capacities[service] = FreeCapacity(
                amount: remaining - concurrentCost, knownSince: instant, source: "sidecar \(call.sidecar)")
        case .refused(.limited(let retryAfterMilliseconds)):
            let competingCost = activeCost[service, default: 0] + awaitedCost[service, default: 0] - costsBefore.awaited
            if call.operation.waitMilliseconds > 0 { awaitedCost[service, default: 0] += demand.cost }
            guard let capacity = capacities[service], retryAfterMilliseconds >= 0,
                capacity.amount - competingCost >= demand.cost,
                call.invoked > capacity.knownSince.advanced(byMilliseconds: Self.maximumRefusalMilliseconds),
                !faults.wasActive(.outage, since: capacity.knownSince.advanced(byMilliseconds: -recoveryMilliseconds)),
                !faults.wasActive(.silence, since: capacity.knownSince.advanced(byMilliseconds: -recoveryMilliseconds))
            else { return }
            let elapsedMilliseconds = (call.invoked.nanoseconds - capacity.knownSince.nanoseconds) / 1_000_000
            capacities[service] = nil
            report(
                at: instant, into: &violations,
                """
                \(services[service].name): sidecar \(call.sidecar) refused client \(call.client) for \
                \(retryAfterMilliseconds) ms, although \(capacity.amount) were free \(elapsedMilliseconds) ms before, \
                according to \(capacity.source)
                """)
        case .refused: return
        default: recordTaken(demand.cost, of: service)
        }
    }

    private mutating func recordTaken(_ cost: Int64, of service: Int) {
        takenCost[service, default: 0] += cost
        capacities[service]?.amount -= cost
    }
}

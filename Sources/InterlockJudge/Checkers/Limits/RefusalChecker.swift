internal import InterlockCore

/// A limit refuses nobody for longer than a second after it had room: what a sidecar remembers without having asked Redis is
/// relied on no longer.
///
/// That a limit had room is known when a call of it was granted with something left, and when Redis has lost its data and all have
/// had their time to notice. It still has room while less than that may have been taken since: every call that was not certainly
/// refused counts, also those that wait. Only for services with one limit that counts for all, which never refills less; and not
/// while a fault may keep a sidecar from Redis or its clock jumps, nor for the recovery time after it. Bounded by services and
/// clients.
struct RefusalChecker: HistoryChecker {
    static let promise = Promise.refusals

    /// For so long a sidecar may rely on what it knows, in ms; and what answers and clocks may differ by.
    private static let reliance: Int64 = 1000
    private static let blur: Int64 = 200

    private struct Room: Sendable {
        /// There was so much left when a call was answered that was asked for then.
        var left: Int64
        var known: Instant
        /// From whom.
        var source: String
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private var rooms: [Int: Room] = [:]
    /// By service: what calls under way may take, and what those that ended may have taken since the beginning.
    private var underWay: [Int: Int64] = [:]
    private var taken: [Int: Int64] = [:]
    /// What they had taken when Redis last began to lose its data.
    private var takenBeforeWipe: [Int: Int64] = [:]
    /// What calls that waited have asked for since the beginning, and were refused: until then they kept back who came after them.
    private var awaited: [Int: Int64] = [:]
    /// By client, whose call is under way: what had been taken, and what had been waited for, when it was asked for.
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
        switch step.what {
        case .invoked(let call, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            underWay[demand.service, default: 0] += demand.cost
            before[call.client] = (taken[demand.service, default: 0], awaited[demand.service, default: 0])
        case .ended(let call, let ending, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            underWay[demand.service, default: 0] -= demand.cost
            ended(call, demand, ending, at: step.at, faults: faults, into: &violations)
        case .faultBegan(_, .clock, _), .faultEnded(_, .clock, _):
            // Emptied counters only make room; a clock may fill them.
            rooms = [:]
        case .faultBegan(_, .redisWipe, _):
            takenBeforeWipe = taken
        case .faultEnded(_, .redisWipe, _):
            emptied(at: step.at)
        default:
            return
        }
    }

    /// What was counted before Redis lost its data is counted no more.
    private mutating func emptied(at instant: Instant) {
        for service in services.indices where isJudged(service) {
            let limit = services[service].limits[0]
            if case .gcra = limit.algorithm { continue }
            rooms[service] = Room(
                left: limit.limit - underWay[service, default: 0] - taken[service, default: 0]
                    + takenBeforeWipe[service, default: 0],
                // Until then nobody is blamed for what the fault has left behind.
                known: instant.advanced(byMilliseconds: recovery + 1), source: "Redis, which was empty,")
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
            // Others may have taken of it while the answer was on its way, and may have been answered sooner.
            let meanwhile = underWay[service, default: 0] + taken[service, default: 0] - before.taken
            take(demand.cost, of: service)
            guard remaining > 0,
                !faults.touches(.outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery))
            else { return }
            rooms[service] = Room(left: remaining - meanwhile, known: instant, source: "sidecar \(call.sidecar)")
        case .refused(.limited(let retryAfter)):
            let wanted = underWay[service, default: 0] + awaited[service, default: 0] - before.awaited
            if call.operation.wait > 0 { awaited[service, default: 0] += demand.cost }
            guard let room = rooms[service], retryAfter >= 0, room.left - wanted >= demand.cost,
                call.invoked > room.known.advanced(byMilliseconds: Self.reliance + Self.blur),
                !faults.touches(.outage, since: room.known.advanced(byMilliseconds: -recovery)),
                !faults.touches(.silence, since: room.known.advanced(byMilliseconds: -recovery))
            else { return }
            let since = (call.invoked.nanoseconds - room.known.nanoseconds) / 1_000_000
            rooms[service] = nil
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    \(services[service].name): client \(call.client) was refused at sidecar \(call.sidecar), \(retryAfter) ms to go, and \
                    \(since) ms before it had room for \(room.left), as \(room.source) knew
                    """))
        case .refused: return
        default: take(demand.cost, of: service)
        }
    }

    private mutating func take(_ cost: Int64, of service: Int) {
        taken[service, default: 0] += cost
        rooms[service]?.left -= cost
    }
}

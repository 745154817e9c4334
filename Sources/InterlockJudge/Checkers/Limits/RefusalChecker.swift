internal import InterlockCore

/// A limit refuses nobody for longer than a second after it had room: what a sidecar remembers without having asked Redis is
/// relied on no longer.
///
/// That a limit had room is known when a call of it was granted with something left. It still has room while less than that may
/// have been taken since: every call that was not certainly refused counts. Only for services with one limit that counts for
/// all, which never refills less; not while somebody waits for it, whom nobody overtakes; and not while a fault may keep a
/// sidecar from Redis or its clock jumps, nor for the recovery time after it. Bounded by services and clients.
struct RefusalChecker: HistoryChecker {
    static let promise = Promise.refusals

    /// For so long a sidecar may rely on what it knows, in ms; and what answers and clocks may differ by.
    private static let reliance: Int64 = 1000
    private static let blur: Int64 = 200

    private struct Room: Sendable {
        /// There was so much left when a call was answered that was asked for then.
        var left: Int64
        var known: Instant
        /// At which sidecar.
        var sidecar: Int
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private var rooms: [Int: Room] = [:]
    /// By service: what calls under way may take, and what those that ended may have taken since the beginning.
    private var underWay: [Int: Int64] = [:]
    private var taken: [Int: Int64] = [:]
    /// By client, whose call is under way: what had been taken when it was asked for.
    private var takenBefore: [Int: Int64] = [:]
    /// By service: how many calls wait, and when the last one ended that did.
    private var waiting: [Int: Int] = [:]
    private var lastWait: [Int: Instant] = [:]

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
            takenBefore[call.client] = taken[demand.service, default: 0]
            if call.operation.wait > 0 { waiting[demand.service, default: 0] += 1 }
        case .ended(let call, let ending, _):
            guard let demand = call.demand, isJudged(demand.service) else { return }
            underWay[demand.service, default: 0] -= demand.cost
            if call.operation.wait > 0 {
                waiting[demand.service, default: 0] -= 1
                lastWait[demand.service] = step.at
            }
            ended(call, demand, ending, at: step.at, faults: faults, into: &violations)
        case .faultBegan(_, let kind, _) where kind.mayForgetCounts, .faultEnded(_, let kind, _) where kind.mayForgetCounts:
            // Emptied counters only make room; a clock may fill them.
            if kind == .clock { rooms = [:] }
        default:
            return
        }
    }

    private mutating func ended(
        _ call: Call, _ demand: Call.Demand, _ ending: OperationEnding, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let service = demand.service
        let before = takenBefore.removeValue(forKey: call.client) ?? 0
        switch ending {
        case .done(.taken(_, let remaining, _)):
            // Others may have taken of it while the answer was on its way, and may have been answered sooner.
            let meanwhile = underWay[service, default: 0] + taken[service, default: 0] - before
            take(demand.cost, of: service)
            guard remaining > 0,
                !faults.touches(.outage, sidecar: call.sidecar, since: call.invoked.advanced(byMilliseconds: -recovery))
            else { return }
            rooms[service] = Room(left: remaining - meanwhile, known: instant, sidecar: call.sidecar)
        case .refused(.limited(let retryAfter)):
            guard let room = rooms[service], retryAfter >= 0, room.left - underWay[service, default: 0] >= demand.cost,
                call.operation.wait == 0, waiting[service, default: 0] == 0,
                lastWait[service, default: .distantPast].advanced(byMilliseconds: Self.reliance) < call.invoked,
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
                    \(since) ms before sidecar \(room.sidecar) knew of room for \(room.left)
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

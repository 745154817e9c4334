internal import InterlockCore

/// A half-open breaker comes to a decision: it does not go on refusing when none of its trial calls is being made.
///
/// It is wedged when calls have been refused in the half-open state for longer than a permit can be out and the recovery time, and
/// none was given a trial meanwhile, nor refused at once by a limit: that one the breaker had let through. Only of services that have trials of the fleet; not judged when a fault lasted at some time
/// since. Bounded by services.
struct HalfOpenChecker: HistoryChecker {
    static let promise = Promise.halfOpen

    /// Within so many ms an answer is one without a wait.
    private static let atOnce: Int64 = 50

    private struct Wait: Sendable {
        /// Since when nothing has happened that could decide it.
        var since: Instant
        var refused = 0
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private var waits: [Int: Wait] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        recovery = rules.recovery
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .breakerSeen(_, let service, let state, _, _):
            waits[service] = state == .halfOpen ? Wait(since: step.at) : nil
        case .forced(let service, _, _):
            waits[service] = nil
        case .ended(let call, .done(.permitted), _), .ended(let call, .done(.reported), _):
            switch call.operation {
            case .permit(let service, _), .report(let service, _, _): waits[service]?.since = step.at
            default: return
            }
        case .ended(let call, .refused(.limited), _):
            guard case .permit(let service, _) = call.operation, step.at < call.invoked.advanced(byMilliseconds: Self.atOnce)
            else { return }
            waits[service]?.since = step.at
        case .ended(let call, .refused(.open), _):
            guard case .permit(let service, _) = call.operation, var wait = waits[service] else { return }
            wait.refused += 1
            waits[service] = wait
            let bound = services[service].permitLifetime + recovery
            guard services[service].halfOpenPermits != nil, wait.refused > 3,
                call.invoked > wait.since.advanced(byMilliseconds: bound),
                !faults.touches(.any, since: wait.since.advanced(byMilliseconds: -recovery))
            else { return }
            waits[service] = nil
            violations.append(
                Violation(
                    Self.promise, at: step.at,
                    """
                    \(services[service].name): half-open, and for \(step.at.millisecondsRoundedUp(since: wait.since)) ms no call was let \
                    through, the last of them client \(call.client)'s at sidecar \(call.sidecar)
                    """))
        default:
            return
        }
    }
}

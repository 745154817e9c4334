internal import InterlockCore

/// A half-open breaker comes to a decision: it does not go on refusing when none of its trial calls is being made.
///
/// It is wedged when calls were refused in the half-open state although for two seconds no trial can have been under way: each
/// was reported, or is older than permits get. Nor was any call refused by a limit without a wait meanwhile: that one the
/// breaker had let through. Only of services that have trials of the fleet; not judged when a fault that may concern them lasted at some
/// time since, or within the recovery time before. Bounded by services and the permits that are out.
struct HalfOpenChecker: HistoryChecker {
    static let promise = Promise.halfOpen

    /// Whoever may wait, and is answered within so many ms, did not.
    private static let atOnce: Int64 = 50

    /// Outcomes are told at least every second, and states are asked for as often.
    private static let patience: Int64 = 2000

    private struct Wait: Sendable {
        /// Since when nothing has happened that could decide it.
        var since: Instant
        var refused = 0
        /// Until when each permit counts that was given since and is not reported.
        var permits: [PermitNumber: Instant] = [:]
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private let clockDrift: Double
    private var waits: [Int: Wait] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        recovery = rules.recovery
        clockDrift = rules.clockDrift
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .breakerSeen(_, let service, let state, _, _):
            waits[service] = state == .halfOpen ? Wait(since: step.at) : nil
        case .forced(let service, _, _):
            waits[service] = nil
        case .ended(let call, let ending, _):
            switch call.operation {
            case .permit(let service, _, let patience):
                ended(call, service, patience: patience, ending, at: step.at, faults: faults, into: &violations)
            case .report(let service, let permit, _):
                waits[service]?.permits[permit] = nil
                waits[service]?.since = step.at
            default: return
            }
        default:
            return
        }
    }

    private mutating func ended(
        _ call: Call, _ service: Int, patience: Int64, _ ending: OperationEnding, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        guard var wait = waits[service] else { return }
        defer { waits[service] = wait }
        let lifetime = services[service].permitLifetime
        let lapse = instant.advanced(byMilliseconds: lifetime + Int64(Double(lifetime) * clockDrift))
        switch ending {
        case .done(.permitted(let permit, _)): wait.permits[permit] = lapse
        // It may have been given one.
        case .unknown, .failed: wait.since = max(wait.since, lapse)
        case .refused(.limited) where patience == 0 || instant < call.invoked.advanced(byMilliseconds: Self.atOnce):
            wait.since = max(wait.since, instant)
        case .refused(.open):
            wait.refused += 1
            let since = wait.permits.values.reduce(wait.since, max)
            guard services[service].halfOpenPermits != nil, wait.refused > 3,
                call.invoked > since.advanced(byMilliseconds: Self.patience),
                !faults.touches(.disturbedServices, since: since.advanced(byMilliseconds: -recovery))
            else { return }
            wait = Wait(since: instant)
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    \(services[service].name): half-open, and for \(instant.millisecondsRoundedUp(since: since)) ms no trial can have been \
                    under way, but client \(call.client) was refused at sidecar \(call.sidecar)
                    """))
        default: return
        }
    }
}

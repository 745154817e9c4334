internal import InterlockCore

/// A half-open breaker comes to a decision: it does not go on refusing when none of its trial calls is being made.
///
/// It is wedged when calls were refused in the half-open state although for two seconds no trial can have been under way: each
/// was reported, or is older than permits get. A trial that is being asked for is known by its answer only, so calls are
/// refused for half a second before they are doubted. Nor was any call refused by a limit without a wait meanwhile: that one
/// the breaker had let through. Only of services that have trials of the fleet; not judged when a fault that may concern them lasted at some
/// time since, or within the recovery time before, or for as long before as a permit lasts: Redis may have given a trial whose answer
/// was lost. Bounded by services and the permits that are out.
struct HalfOpenChecker: HistoryChecker {
    static let promise = Promise.halfOpen

    /// Whoever may wait, and is answered within so many ms, did not.
    private static let atOnce: Int64 = 50

    /// Outcomes are told at least every second, and states are asked for as often.
    private static let patience: Int64 = 1500
    /// A trial is answered within so many ms.
    private static let asking: Int64 = 500

    private struct Wait: Sendable {
        /// Since when nothing has happened that could decide it.
        var since: Instant
        var refused = 0
        /// When a call was first refused that should not have been.
        var doubted = Instant.distantPast
    }

    /// Trials that are not reported. One sidecar may give them before another knows of the change.
    private struct Trials: Sendable {
        /// Until when each of them counts.
        private var lapses: [PermitNumber: Instant] = [:]
        /// Not looked through before there are so many: of some the time may be over.
        private var worthALook = 64

        mutating func give(_ permit: PermitNumber, until lapse: Instant, at instant: Instant) {
            lapses[permit] = lapse
            guard lapses.count >= worthALook else { return }
            lapses = lapses.filter { $0.value > instant }
            worthALook = max(64, 2 * lapses.count)
        }

        mutating func reported(_ permit: PermitNumber) { lapses[permit] = nil }

        var lastLapse: Instant { lapses.values.max() ?? .distantPast }
    }

    private let services: [ServiceRules]
    private let recovery: Int64
    private let clockDrift: Double
    private var waits: [Int: Wait] = [:]
    private var trials: [Int: Trials] = [:]

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
                trials[service]?.reported(permit)
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
        let lifetime = services[service].permitLifetime
        let lapse = instant.advanced(byMilliseconds: lifetime + Int64(Double(lifetime) * clockDrift))
        if case .done(.permitted(let permit, let state)) = ending, state != .closed {
            trials[service, default: Trials()].give(permit, until: lapse, at: instant)
        }
        guard var wait = waits[service] else { return }
        defer { waits[service] = wait }
        switch ending {
        // It may have been given one.
        case .unknown, .failed: wait.since = max(wait.since, lapse)
        case .refused(.limited) where patience == 0 || instant < call.invoked.advanced(byMilliseconds: Self.atOnce):
            wait.since = max(wait.since, instant)
        case .refused(.open):
            wait.refused += 1
            let since = max(wait.since, trials[service]?.lastLapse ?? .distantPast)
            guard services[service].halfOpenPermits != nil, wait.refused > 3,
                call.invoked > since.advanced(byMilliseconds: Self.patience),
                !faults.touches(
                    .disturbedServices,
                    since: min(
                        since.advanced(byMilliseconds: -recovery),
                        Instant(nanoseconds: call.invoked.nanoseconds - (lapse.nanoseconds - instant.nanoseconds))))
            else { return }
            if wait.doubted <= since { wait.doubted = instant }
            guard instant >= wait.doubted.advanced(byMilliseconds: Self.asking) else { return }
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

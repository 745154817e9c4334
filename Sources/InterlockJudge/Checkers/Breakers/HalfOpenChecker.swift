internal import InterlockCore

/// Checks that a half-open breaker reaches a decision: it does not keep refusing calls while no trial is active.
///
/// A violation is reported if a half-open breaker refuses calls although no trial can have been active for 1.5 seconds,
/// and still refuses calls half a second later. A trial ends when it is reported or its permit expires. The half second
/// covers requests for a trial that have not been answered yet. If a limit refuses a call that did not wait, the
/// breaker had let the call through, which counts as progress.
///
/// The checker judges only services whose trials are counted across the fleet. It judges nothing if a relevant fault
/// was active since the last progress, or within the recovery time or a permit's lifetime before: Redis may have
/// granted a trial whose answer was lost. Uses O(services + permits) memory.
struct HalfOpenChecker: HistoryChecker {
    static let invariant = Invariant.halfOpen

    /// The time, in milliseconds, within which an answered call counts as not having waited, even if it could have.
    private static let noWaitThreshold: Int64 = 50

    /// The time without a possible trial after which refusals are wrong, in milliseconds. Sidecars report outcomes and
    /// read states at least once a second.
    private static let maximumStall: Int64 = 1500
    /// The maximum time from a request for a trial to its answer, in milliseconds.
    private static let maximumLatency: Int64 = 500

    private struct Wait: Sendable {
        /// The time of the last event that could have led to a decision.
        var since: Instant
        var refused = 0
        /// The time of the first wrong refusal.
        var firstWrongRefusal = Instant.distantPast
    }

    /// The unreported trials. A sidecar may grant one before another sidecar knows of the change.
    private struct Trials: Sendable {
        /// The expiry of each trial.
        private var expiries: [PermitNumber: Instant] = [:]
        /// The number of trials that triggers the removal of expired ones.
        private var cleanupThreshold = 64

        mutating func grant(_ permit: PermitNumber, until expiry: Instant, at instant: Instant) {
            expiries[permit] = expiry
            guard expiries.count >= cleanupThreshold else { return }
            expiries = expiries.filter { $0.value > instant }
            cleanupThreshold = max(64, 2 * expiries.count)
        }

        mutating func reported(_ permit: PermitNumber) { expiries[permit] = nil }

        var lastExpiry: Instant { expiries.values.max() ?? .distantPast }
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
        switch step.kind {
        case .breakerSeen(_, let service, let state, _, _):
            waits[service] = state == .halfOpen ? Wait(since: step.at) : nil
        case .forced(let service, _, _):
            waits[service] = nil
        case .ended(let call, let ending, _):
            switch call.operation {
            case .permit(let service, _, let wait):
                ended(call, service, callWait: wait, ending, at: step.at, faults: faults, into: &violations)
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
        _ call: Call, _ service: Int, callWait: Int64, _ ending: OperationEnding, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let lifetime = services[service].permitLifetime
        let expiry = instant.advanced(byMilliseconds: lifetime + Int64(Double(lifetime) * clockDrift))
        if case .done(.permitted(let permit, let state)) = ending, state != .closed {
            trials[service, default: Trials()].grant(permit, until: expiry, at: instant)
        }
        guard var wait = waits[service] else { return }
        defer { waits[service] = wait }
        switch ending {
        // The call may have been granted a trial.
        case .unknown, .failed: wait.since = max(wait.since, expiry)
        case .refused(.limited) where callWait == 0 || instant < call.invoked.advanced(byMilliseconds: Self.noWaitThreshold):
            wait.since = max(wait.since, instant)
        case .refused(.open):
            wait.refused += 1
            let since = max(wait.since, trials[service]?.lastExpiry ?? .distantPast)
            guard services[service].halfOpenPermits != nil, wait.refused > 3,
                call.invoked > since.advanced(byMilliseconds: Self.maximumStall),
                !faults.wasActive(
                    .disturbedServices,
                    since: min(
                        since.advanced(byMilliseconds: -recovery),
                        Instant(nanoseconds: call.invoked.nanoseconds - (expiry.nanoseconds - instant.nanoseconds))))
            else { return }
            if wait.firstWrongRefusal <= since { wait.firstWrongRefusal = instant }
            guard instant >= wait.firstWrongRefusal.advanced(byMilliseconds: Self.maximumLatency) else { return }
            wait = Wait(since: instant)
            report(
                at: instant, into: &violations,
                """
                \(services[service].name): half-open without a possible trial for \(instant.millisecondsRoundedUp(since: since)) ms, \
                and sidecar \(call.sidecar) still refused client \(call.client)
                """)
        default: return
        }
    }
}

internal import InterlockCore

/// Checks that a half-open breaker reaches a decision: it does not keep refusing calls while no trial is active.
///
/// The checker reports a half-open breaker that refuses calls although no trial can have been active for 1.5 seconds,
/// and that still refuses calls half a second later. A trial ends when it is reported or its permit expires. The half
/// second covers requests for a trial that have no answer yet. If a limit refuses a call that did not wait, the breaker
/// had let the call through, which counts as progress.
///
/// The checker judges only services whose trials are counted across the fleet. It judges nothing if a relevant fault
/// was active since the last progress, or within the recovery time or a permit's lifetime before: Redis may have
/// granted a trial whose answer was lost. Uses O(services + permits) memory.
struct HalfOpenChecker: HistoryChecker {
    static let invariant = Invariant.halfOpen

    /// The time, in milliseconds, within which an answered call counts as not having waited, even if it could have.
    private static let noWaitMilliseconds: Int64 = 50

    /// The time without a possible trial after which refusals are wrong, in milliseconds. Sidecars report outcomes and
    /// read states at least once a second.
    private static let maximumStallMilliseconds: Int64 = 1500
    /// The maximum time from a request for a trial to its answer, in milliseconds.
    private static let maximumLatencyMilliseconds: Int64 = 500

    /// A period in which a half-open breaker made no progress.
    private struct Stall: Sendable {
        /// The time of the last event that could have led to a decision.
        var since: Instant
        var refusalCount = 0
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

        mutating func remove(_ permit: PermitNumber) { expiries[permit] = nil }

        var lastExpiry: Instant { expiries.values.max() ?? .distantPast }
    }

    private let services: [ServiceRules]
    private let recoveryMilliseconds: Int64
    private let clockDrift: Double
    private var stalls: [Int: Stall] = [:]
    private var trials: [Int: Trials] = [:]

    init(rules: HistoryRules) {
        services = rules.services
        recoveryMilliseconds = rules.recoveryMilliseconds
        clockDrift = rules.clockDrift
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .breakerSeen(_, let service, let state, _, _):
            stalls[service] = state == .halfOpen ? Stall(since: step.at) : nil
        case .forced(let service, _, _):
            stalls[service] = nil
        case .ended(let call, let ending, _):
            switch call.operation {
            case .permit(let service, _, let waitMilliseconds):
                permitCallEnded(
                    call, service, waitMilliseconds: waitMilliseconds, ending, at: step.at, faults: faults,
                    into: &violations)
            case .report(let service, let permit, _):
                trials[service]?.remove(permit)
                stalls[service]?.since = step.at
            default: return
            }
        default:
            return
        }
    }

    private mutating func permitCallEnded(
        _ call: Call, _ service: Int, waitMilliseconds: Int64, _ ending: OperationEnding, at instant: Instant,
        faults: FaultLog, into violations: inout [Violation]
    ) {
        let lifetimeMilliseconds = services[service].permitLifetimeMilliseconds
        let expiry = instant.advanced(
            byMilliseconds: lifetimeMilliseconds + Int64(Double(lifetimeMilliseconds) * clockDrift))
        if case .done(.permitted(let permit, let state)) = ending, state != .closed {
            trials[service, default: Trials()].grant(permit, until: expiry, at: instant)
        }
        guard var stall = stalls[service] else { return }
        defer { stalls[service] = stall }
        switch ending {
        // The call may have been granted a trial.
        case .unknown, .failed: stall.since = max(stall.since, expiry)
        case .refused(.limited)
        where waitMilliseconds == 0 || instant < call.invoked.advanced(byMilliseconds: Self.noWaitMilliseconds):
            stall.since = max(stall.since, instant)
        case .refused(.open):
            stall.refusalCount += 1
            let since = max(stall.since, trials[service]?.lastExpiry ?? .distantPast)
            guard services[service].halfOpenPermits != nil, stall.refusalCount > 3,
                call.invoked > since.advanced(byMilliseconds: Self.maximumStallMilliseconds),
                !faults.wasActive(
                    .disturbedServices,
                    since: min(
                        since.advanced(byMilliseconds: -recoveryMilliseconds),
                        Instant(nanoseconds: call.invoked.nanoseconds - (expiry.nanoseconds - instant.nanoseconds))))
            else { return }
            if stall.firstWrongRefusal <= since { stall.firstWrongRefusal = instant }
            guard instant >= stall.firstWrongRefusal.advanced(byMilliseconds: Self.maximumLatencyMilliseconds) else {
                return
            }
            stall = Stall(since: instant)
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

internal import InterlockCore

/// Checks that a forced state lasts until its end, or until an operator changes it, whatever happens to Redis.
///
/// A sidecar's report of another state is a violation if it has a later generation and no report of the forced state
/// follows within half a second. The checker does not judge a forced state if Redis lost data or its clock jumped
/// before the operator received the answer. A jump of the Redis clock alone must not end a forced state. A jump and
/// another fault together may, because the fault may have killed the sidecars that measured the time. Uses O(services)
/// memory.
struct ForcedStateChecker: HistoryChecker {
    static let invariant = Invariant.forcedStates

    private struct Forced: Sendable {
        var state: BreakerSnapshot.State
        var since: Instant
        var until: Instant
        /// The latest generation in which the forced state was reported; `nil` before the first report.
        var generation: Int64?
    }

    /// The tolerance for the end of a forced state, in milliseconds.
    private static let toleranceMilliseconds: Int64 = 200

    private let services: [ServiceRules]
    private var forced: [Int: Forced] = [:]
    private var pending = PendingFindings()
    /// The time of the operator's last request, by service.
    private var requestedAt: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        pending.finalize(at: step.at, into: &violations)
        switch step.kind {
        case .forced(let service, nil, _):
            forced[service] = nil
            requestedAt[service] = step.at
        case .forced(let service, let state?, let until):
            let since = requestedAt[service] ?? step.at
            let mayBeLost = faults.wasActive(.lostData, since: since) || faults.lastClockJump >= since
            let end = until?.advanced(byMilliseconds: -Self.toleranceMilliseconds) ?? .distantFuture
            forced[service] =
                mayBeLost ? nil : Forced(state: state == .open ? .open : .closed, since: step.at, until: end)
        case .breakerSeen(let sidecar, let service, let state, let generation, _):
            guard let forcedState = forced[service] else { return }
            guard step.at < forcedState.until else { return forced[service] = nil }
            // A late report may be older than the forced state.
            guard !faults.wasActive(.delayedMessages, sidecar: sidecar, since: forcedState.since) else { return }
            guard state != forcedState.state else {
                // Contradicting reports that arrived earlier describe an earlier change.
                pending.explain(service, generation: generation, at: step.at)
                forced[service]?.generation = max(generation, forcedState.generation ?? generation)
                return
            }
            let hasClockJumped = faults.lastClockJump >= forcedState.since
            guard !hasClockJumped || !faults.wasActive(.anyExceptClockJump, since: forcedState.since) else { return }
            // Changes from before the forced state may be reported after it.
            guard let reportedGeneration = forcedState.generation, generation > reportedGeneration else { return }
            let finding = Violation(
                Self.invariant, at: step.at,
                """
                \(services[service].name): forced \(forcedState.state.rawValue), but sidecar \(sidecar) reports \
                \(state.rawValue), generation \(generation), \
                \(step.at.millisecondsRoundedUp(since: forcedState.since)) ms later
                """)
            pending.append(.init(service: service, generation: generation, until: nil, violation: finding))
        default:
            return
        }
    }
}

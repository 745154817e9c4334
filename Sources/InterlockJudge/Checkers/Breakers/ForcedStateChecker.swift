internal import InterlockCore

/// A forced state lasts until its end, or until an operator changes it, whatever happens to Redis.
///
/// The promise is broken if a sidecar reports another state with a later generation, and no report of the forced state
/// follows. The checker ignores a forced state if Redis lost data or its clock jumped before the operator had the
/// answer. A jump of Redis' clock alone ends no forced state; together with another fault it may, because the sidecars
/// that measured the time may be gone. Memory is bounded by services.
struct ForcedStateChecker: HistoryChecker {
    static let promise = Promise.forcedStates

    private struct Forced: Sendable {
        var state: BreakerSnapshot.State
        var since: Instant
        var until: Instant
        /// The generation of the first report; `nil` before.
        var generation: Int64?
    }

    /// The accuracy of an end, in ms.
    private static let blur: Int64 = 200

    private let services: [ServiceRules]
    private var forced: [Int: Forced] = [:]
    private var doubtful = DoubtfulFindings()
    /// The time of an operator's last request, by service. Its event has no state.
    private var asked: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.finalize(at: step.at, into: &violations)
        switch step.what {
        case .forced(let service, nil, _):
            forced[service] = nil
            asked[service] = step.at
        case .forced(let service, let state?, let until):
            let since = asked[service] ?? step.at
            let mayBeLost = faults.touches(.lostData, since: since) || faults.lastClockJump >= since
            forced[service] =
                mayBeLost
                ? nil
                : Forced(
                    state: state == .open ? .open : .closed, since: step.at,
                    until: (until ?? .distantFuture).advanced(byMilliseconds: until == nil ? 0 : -Self.blur))
        case .breakerSeen(let sidecar, let service, let state, let generation, _):
            guard let known = forced[service] else { return }
            guard step.at < known.until else { return forced[service] = nil }
            // A late report may be older than the forced state.
            guard !faults.touches(.lateNews, sidecar: sidecar, since: known.since) else { return }
            guard state != known.state else {
                // Earlier contradictions were reports of an earlier change.
                doubtful.explain(service, generation: generation, at: step.at)
                forced[service]?.generation = max(generation, known.generation ?? generation)
                return
            }
            guard faults.lastClockJump < known.since || !faults.touches(.anyExceptClockJump, since: known.since) else { return }
            // Changes from before the forced state may be reported after it.
            guard let reported = known.generation, generation > reported else { return }
            let finding = Violation(
                Self.promise, at: step.at,
                """
                \(services[service].name): forced \(known.state.rawValue), but sidecar \(sidecar) reports \(state.rawValue), \
                generation \(generation), \(step.at.millisecondsRoundedUp(since: known.since)) ms later
                """)
            doubtful.append(.init(service: service, generation: generation, until: nil, violation: finding))
        default:
            return
        }
    }
}

internal import InterlockCore

/// What an operator forces stands until its end, or until an operator says otherwise, whatever happens to Redis.
///
/// It is broken when a sidecar that was told of it says that the breaker stands otherwise under a later generation, and no news
/// come behind that it stands so. Forgotten when every sidecar has been killed since, and after a jump of Redis' clock; and
/// never known when Redis lost data, or its clock jumped, before the operator had the answer. Bounded by services.
struct ForcedStateChecker: HistoryChecker {
    static let promise = Promise.forcedStates

    private struct Forced: Sendable {
        var state: BreakerSnapshot.State
        var since: Instant
        var until: Instant
        /// Under which it was told of; `nil`: it was not yet.
        var generation: Int64?
    }

    /// How exactly an end is known, in ms.
    private static let blur: Int64 = 200

    private let services: [ServiceRules]
    private var forced: [Int: Forced] = [:]
    private var doubtful = DoubtfulFindings()
    /// When an operator last asked for a change of it, by service.
    private var asked: [Int: Instant] = [:]

    init(rules: HistoryRules) {
        services = rules.services
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.settle(at: step.at, into: &violations)
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
            // What it tells may be older than what was forced.
            guard !faults.touches(.lateNews, sidecar: sidecar, since: known.since) else { return }
            guard state != known.state else {
                // What came before was the news of a change before it.
                doubtful.explain(service, generation: generation, at: step.at)
                forced[service]?.generation = max(generation, known.generation ?? generation)
                return
            }
            // What came before it may be told after it.
            guard let told = known.generation, generation > told else { return }
            let finding = Violation(
                Self.promise, at: step.at,
                """
                \(services[service].name): forced \(known.state.rawValue), and sidecar \(sidecar) says that it is \(state.rawValue), \
                generation \(generation), \(step.at.millisecondsRoundedUp(since: known.since)) ms later
                """)
            doubtful.append(.init(service: service, generation: generation, until: nil, violation: finding))
        case .faultBegan(_, .clock, _), .faultEnded(_, .clock, _):
            forced = [:]
            doubtful.removeAll()
        default:
            return
        }
    }

    mutating func finish(open calls: [Call], at end: Instant, faults: FaultLog, into violations: inout [Violation]) {
        doubtful.settle(at: end, into: &violations)
    }
}

internal import InterlockCore

/// Checks that a used-up limit refills after its window, and does not refuse every call forever.
///
/// The checker reports a limit that refuses calls of cost 1 for longer than the refill time, although clients make at
/// least one call in each refill time (or second, if longer). The refill time is the window; for `gcra`, it is the time
/// in which the burst is restored. The checker adds a second at the beginning and one at the end, in which a sidecar
/// may rely on a remembered refusal, and one for the time that answers take. Time during faults and the recovery time
/// after them does not count. A jump of the Redis clock restarts the count but excuses nothing else, because it makes
/// no counter outlast its window. A call without an answer counts as granted.
///
/// The checker judges only services whose limits all have refill times of at most 10 seconds. If any limit is common to
/// all subjects, any grant shows that the service recovered; otherwise each subject is judged separately. Uses
/// O(services) memory, with at most 4,096 subjects each.
struct LimitRefillChecker: HistoryChecker {
    static let invariant = Invariant.limitsRefill

    /// The maximum refill time of a judged service, in milliseconds.
    private static let maximumRefillMilliseconds: Int64 = 10_000
    /// The maximum time for which a sidecar relies on a refusal, in milliseconds.
    private static let refusalLifetimeMilliseconds: Int64 = 1000
    /// The time that answers may take, in milliseconds.
    private static let slackMilliseconds: Int64 = 1000
    private static let maximumSubjects = 4096

    /// A series of refusals without a grant.
    private struct RefusalStreak: Sendable {
        var since: Instant
        /// The time when the latest refused call was invoked.
        var lastInvoked: Instant
        var refusalCount: Int
    }

    private struct Service: Sendable {
        var name: String
        /// The maximum refill time in milliseconds; `nil` if the service is not judged.
        var refillMilliseconds: Int64?
        var hasCommonLimit: Bool
        /// The streaks by subject. A service with a common limit uses subject 0.
        var streaks: [Int: RefusalStreak] = [:]
    }

    private let recoveryMilliseconds: Int64
    private var services: [Service]

    init(rules: HistoryRules) {
        recoveryMilliseconds = rules.recoveryMilliseconds
        services = rules.services.map { service in
            let slowestRefillMilliseconds = service.limits.map(\.refillMilliseconds).max() ?? .max
            let isJudged = slowestRefillMilliseconds <= Self.maximumRefillMilliseconds
            return Service(
                name: service.name, refillMilliseconds: isJudged ? slowestRefillMilliseconds : nil,
                hasCommonLimit: service.limits.contains { !$0.isPerSubject })
        }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .ended(let call, let ending, _):
            guard let demand = call.demand, let refillMilliseconds = services[demand.service].refillMilliseconds else {
                return
            }
            let subject = services[demand.service].hasCommonLimit ? 0 : demand.subject ?? 0
            switch ending {
            case .done, .unknown, .failed:
                services[demand.service].streaks[subject] = nil
            case .refused(.limited(let retryAfterMilliseconds)):
                guard demand.cost == 1, retryAfterMilliseconds >= 0 else { return }
                callRefused(
                    demand.service, subject, call, refillMilliseconds: refillMilliseconds, at: step.at, faults: faults,
                    into: &violations)
            case .refused:
                return
            }
        case .faultBegan(_, let kind, _) where kind.mayCause(.lostCounts),
            .faultEnded(_, let kind, _) where kind.mayCause(.lostCounts):
            for service in services.indices { services[service].streaks = [:] }
        case .invoked, .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    private mutating func callRefused(
        _ service: Int, _ subject: Int, _ call: Call, refillMilliseconds: Int64, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let newStreak = RefusalStreak(since: instant, lastInvoked: call.invoked, refusalCount: 1)
        guard var streak = services[service].streaks[subject] else {
            if services[service].streaks.count >= Self.maximumSubjects { services[service].streaks.removeAll() }
            services[service].streaks[subject] = newStreak
            return
        }
        let maximumGapMilliseconds = max(refillMilliseconds, Self.refusalLifetimeMilliseconds)
        let isSteady = call.invoked <= streak.lastInvoked.advanced(byMilliseconds: maximumGapMilliseconds)
        let faultsSince = streak.since.advanced(byMilliseconds: -recoveryMilliseconds)
        guard isSteady, !faults.wasActive(.anyExceptClockJump, since: faultsSince) else {
            services[service].streaks[subject] = newStreak
            return
        }
        streak.refusalCount += 1
        streak.lastInvoked = max(streak.lastInvoked, call.invoked)
        let boundMilliseconds =
            refillMilliseconds + 2 * min(refillMilliseconds, Self.refusalLifetimeMilliseconds) + Self.slackMilliseconds
        guard instant > streak.since.advanced(byMilliseconds: boundMilliseconds) else {
            services[service].streaks[subject] = streak
            return
        }
        services[service].streaks[subject] = newStreak
        let elapsedMilliseconds = (instant.nanoseconds - streak.since.nanoseconds) / 1_000_000
        report(
            at: instant, into: &violations,
            """
            \(services[service].name): all \(streak.refusalCount) calls in \(elapsedMilliseconds) ms were refused as \
            limited, although the longest window is \(refillMilliseconds) ms
            """)
    }
}

extension LimitRule {
    /// The time in which a used-up limit becomes available in full again, in milliseconds.
    fileprivate var refillMilliseconds: Int64 {
        switch algorithm {
        case .fixed, .sliding: windowMilliseconds
        case .gcra: max(1, (burst + 1) * windowMilliseconds / max(1, limit) + 1)
        }
    }
}

internal import InterlockCore

/// Checks that a used-up limit refills after its window, and does not refuse every call forever.
///
/// A violation is reported if calls of cost 1 are refused for longer than the refill time, at least one call is made in
/// each refill time (or second, if longer), and none is granted. The refill time is the window; for `gcra`, it is the
/// time in which the burst is restored. In addition, a sidecar may rely on a refusal for a second at the beginning and
/// at the end, and answers take time. Time during faults and the recovery time after them does not count. A jump of
/// the Redis clock restarts the count but excuses nothing else, because it makes no counter outlast its window. A call
/// without an answer counts as granted.
///
/// The checker judges only services whose limits all have refill times of at most 10 seconds. If any limit is common to
/// all subjects, any grant shows that the service recovered; otherwise each subject is judged separately. Uses
/// O(services) memory, with at most 4,096 subjects each.
struct LimitRefillChecker: HistoryChecker {
    static let invariant = Invariant.limitsRefill

    /// The maximum refill time of a judged service, in milliseconds.
    private static let maximumWindow: Int64 = 10_000
    /// How long a sidecar may rely on a refusal, in milliseconds.
    private static let refusalLifetime: Int64 = 1000
    /// The time that answers may take, in milliseconds.
    private static let slack: Int64 = 1000
    private static let maximumSubjects = 4096

    /// A series of refusals without a grant.
    private struct RefusalStreak: Sendable {
        var since: Instant
        /// The time when the latest refused call was invoked.
        var lastInvoked: Instant
        var refusals: Int
    }

    private struct Service: Sendable {
        var name: String
        /// The maximum refill time in milliseconds; `nil` if the service is not judged.
        var window: Int64?
        var hasCommonLimit: Bool
        /// The streaks by subject. A service with a common limit uses subject 0.
        var streaks: [Int: RefusalStreak] = [:]
    }

    private let recovery: Int64
    private var services: [Service]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        services = rules.services.map { service in
            let refillTime = service.limits.map(\.refill).max() ?? .max
            return Service(
                name: service.name, window: refillTime <= Self.maximumWindow ? refillTime : nil,
                hasCommonLimit: service.limits.contains { !$0.isPerSubject })
        }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .ended(let call, let ending, _):
            guard let demand = call.demand, let window = services[demand.service].window else { return }
            let subject = services[demand.service].hasCommonLimit ? 0 : demand.subject ?? 0
            switch ending {
            case .done, .unknown, .failed:
                services[demand.service].streaks[subject] = nil
            case .refused(.limited(let retryAfter)):
                guard demand.cost == 1, retryAfter >= 0 else { return }
                refused(demand.service, subject, call, window: window, at: step.at, faults: faults, into: &violations)
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

    private mutating func refused(
        _ service: Int, _ subject: Int, _ call: Call, window: Int64, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let new = RefusalStreak(since: instant, lastInvoked: call.invoked, refusals: 1)
        guard var streak = services[service].streaks[subject] else {
            if services[service].streaks.count >= Self.maximumSubjects { services[service].streaks.removeAll() }
            services[service].streaks[subject] = new
            return
        }
        let isSteady = call.invoked <= streak.lastInvoked.advanced(byMilliseconds: max(window, Self.refusalLifetime))
        guard isSteady, !faults.wasActive(.anyExceptClockJump, since: streak.since.advanced(byMilliseconds: -recovery)) else {
            services[service].streaks[subject] = new
            return
        }
        streak.refusals += 1
        streak.lastInvoked = max(streak.lastInvoked, call.invoked)
        guard instant > streak.since.advanced(byMilliseconds: window + 2 * min(window, Self.refusalLifetime) + Self.slack) else {
            services[service].streaks[subject] = streak
            return
        }
        services[service].streaks[subject] = new
        let lasted = (instant.nanoseconds - streak.since.nanoseconds) / 1_000_000
        report(
            at: instant, into: &violations,
            """
            \(services[service].name): all \(streak.refusals) calls in \(lasted) ms were refused as limited, although the longest window \
            is \(window) ms
            """)
    }
}

extension LimitRule {
    /// How long a used-up limit takes to be full again, in milliseconds.
    fileprivate var refill: Int64 {
        switch algorithm {
        case .fixed, .sliding: window
        case .gcra: max(1, (burst + 1) * window / max(1, limit) + 1)
        }
    }
}

/// The budget for retries, which keeps them from multiplying an outage. `ProxiedCallStateMachine` decides when to spend
/// it.
///
/// There are two token buckets, as in Finagle's `RetryBudget`: each call adds a fraction of a retry to one, and time
/// fills the other at the minimum rate. Both are bounded, so that the savings of a quiet hour cannot all be spent at
/// once.
package struct RetryBudget: Sendable {
    /// The maximum number of retries that calls can save up.
    package static let maximumSavings = 100.0

    private let settings: RetrySettings
    /// The retries that calls have saved up.
    private var savings = 0.0
    /// The retries that time has allowed.
    private var allowance: Double
    /// The time of the last refill of `allowance`.
    private var refilledAt: Instant?

    package init(settings: RetrySettings) {
        self.settings = settings
        allowance = Double(settings.minimumPerSecond)
    }

    /// Counts a call that is not a retry.
    package mutating func countCall() {
        savings = min(Self.maximumSavings, savings + settings.budget)
    }

    /// Takes one retry. Returns `false` if the budget is used up.
    package mutating func takeRetry(now: Instant) -> Bool {
        refill(now: now)
        if allowance >= 1 {
            allowance -= 1
            return true
        }
        // Ten times a tenth is slightly less than one in floating point.
        guard savings >= 1 - 1e-9 else { return false }
        savings = max(0, savings - 1)
        return true
    }

    private mutating func refill(now: Instant) {
        defer { refilledAt = now }
        guard let refilledAt, now > refilledAt else { return }
        let seconds = Double(now.nanoseconds - refilledAt.nanoseconds) / 1e9
        let rate = Double(settings.minimumPerSecond)
        allowance = min(rate, allowance + seconds * rate)
    }
}

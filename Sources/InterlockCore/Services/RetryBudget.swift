/// The budget for retries, so that they cannot multiply an outage. `ProxiedCallStateMachine` decides whether to spend it.
///
/// Two token buckets, as in Finagle's `RetryBudget`: each call puts its share of a retry into one, and time fills the other
/// at the least rate that is always allowed. Both are bounded, so that a quiet hour cannot be spent in a storm.
package struct RetryBudget: Sendable {
    /// The most retries that calls can save up.
    package static let largestSavings = 100.0

    private let settings: RetrySettings
    private var savings = 0.0
    private var allowance: Double
    private var allowanceAt: Instant?

    package init(settings: RetrySettings) {
        self.settings = settings
        allowance = Double(settings.minimumPerSecond)
    }

    /// A call was made that is not a retry itself.
    package mutating func noteCall() {
        savings = min(Self.largestSavings, savings + settings.budget)
    }

    /// Takes one retry, if there is one.
    package mutating func takeRetry(now: Instant) -> Bool {
        refill(now: now)
        if allowance >= 1 {
            allowance -= 1
            return true
        }
        // Tenths that were added up ten times come to a little less than one.
        guard savings >= 1 - 1e-9 else { return false }
        savings = max(0, savings - 1)
        return true
    }

    private mutating func refill(now: Instant) {
        defer { allowanceAt = now }
        guard let allowanceAt, now > allowanceAt else { return }
        let seconds = Double(now.nanoseconds - allowanceAt.nanoseconds) / 1e9
        let rate = Double(settings.minimumPerSecond)
        allowance = min(rate, allowance + seconds * rate)
    }
}

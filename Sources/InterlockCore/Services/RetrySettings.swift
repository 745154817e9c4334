/// The retries of the proxy: only of idempotent calls without a body, and only within the budget. In addition, a
/// request that the upstream is known not to have processed, POST included, is resent once.
package struct RetrySettings: Hashable, Sendable {
    /// The maximum number of attempts after the first; 0 for none.
    package var attempts: Int
    /// The maximum number of retries as a fraction of the calls, 0…1, so that retries cannot multiply an outage.
    package var budget: Double
    /// The number of retries per second that are always allowed.
    package var minimumPerSecond: Int

    package init(attempts: Int = 1, budget: Double = 0.1, minimumPerSecond: Int = 1) {
        self.attempts = attempts
        self.budget = budget
        self.minimumPerSecond = minimumPerSecond
    }
}

extension RetrySettings: DigestedSetting {
    package var digestedParts: Parts {
        [("attempts", attempts), ("budget", budget), ("minimumPerSecond", minimumPerSecond)]
    }
}

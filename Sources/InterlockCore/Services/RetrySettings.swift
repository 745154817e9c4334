/// The retries of the proxy: only of idempotent calls without a body, and only within the budget. A request that the
/// upstream has certainly not processed, POST included, is resent once besides.
package struct RetrySettings: Hashable, Sendable {
    /// The most tries after the first; 0: none.
    package var attempts: Int
    /// Retries may be at most this share of the calls, 0…1, so that they cannot multiply an outage.
    package var budget: Double
    /// The retries that are always allowed, per second.
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

/// The settings of the proxy's retries. The proxy retries only idempotent calls without a body, and only within the
/// budget. In addition, it resends a request once, even a POST, if the upstream is known not to have processed it.
package struct RetrySettings: Hashable, Sendable {
    /// The maximum number of attempts after the first; 0 to retry nothing.
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

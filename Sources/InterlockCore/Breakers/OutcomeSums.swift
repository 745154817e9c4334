/// The totals of one service's outcomes.
package struct OutcomeSums: Hashable, Sendable {
    package var calls: Int64
    package var failures: Int64
    package var slow: Int64
    /// The number of failures since the last success.
    package var trailingFailures: Int64

    package init(calls: Int64 = 0, failures: Int64 = 0, slow: Int64 = 0, trailingFailures: Int64 = 0) {
        self.calls = calls
        self.failures = failures
        self.slow = slow
        self.trailingFailures = trailingFailures
    }

    package var isEmpty: Bool { calls == 0 }

    /// Whether any call succeeded.
    package var hasSuccess: Bool { calls > failures }

    /// Returns the sums of these outcomes followed by the `later` ones.
    package func followed(by later: OutcomeSums) -> OutcomeSums {
        OutcomeSums(
            calls: calls &+ later.calls, failures: failures &+ later.failures, slow: slow &+ later.slow,
            trailingFailures: later.hasSuccess ? later.trailingFailures : trailingFailures &+ later.failures)
    }

    /// Counts one more call.
    package mutating func add(isFailure: Bool, isSlow: Bool) {
        calls &+= 1
        if isSlow { slow &+= 1 }
        if isFailure {
            failures &+= 1
            trailingFailures &+= 1
        } else {
            trailingFailures = 0
        }
    }

    /// Returns the cause for which these sums trip a breaker with these settings; `nil` if they do not trip it. The
    /// script applies the same rule to the fleet's sums.
    package func cause(by settings: BreakerSettings) -> BreakerCause? {
        if calls >= Int64(settings.minimumCalls), calls > 0 {
            if Double(failures) / Double(calls) >= settings.failureRate { return .failures }
            if settings.slowCall != nil, Double(slow) / Double(calls) >= settings.slowRate { return .slow }
        }
        if let limit = settings.consecutiveFailures, trailingFailures >= Int64(limit) { return .consecutive }
        return nil
    }
}

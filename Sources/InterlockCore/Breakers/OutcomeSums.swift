/// What became of a call that a permit was given for.
public enum Outcome: String, CaseIterable, Hashable, Sendable {
    case ok
    case error
    /// Says nothing of the service: the call was given up by its caller, for instance.
    case ignore
}

/// Outcomes of one service that have not been sent to Redis yet.
public struct OutcomeSums: Hashable, Sendable {
    public var calls: Int64 = 0
    public var failures: Int64 = 0
    public var slow: Int64 = 0

    public init(calls: Int64 = 0, failures: Int64 = 0, slow: Int64 = 0) {
        self.calls = calls
        self.failures = failures
        self.slow = slow
    }

    public var isEmpty: Bool { calls == 0 }

    public static func + (left: OutcomeSums, right: OutcomeSums) -> OutcomeSums {
        OutcomeSums(
            calls: left.calls &+ right.calls, failures: left.failures &+ right.failures, slow: left.slow &+ right.slow)
    }

    /// Whether such sums trip a breaker with these settings; the script applies the same rule to the fleet's sums.
    public func trips(_ settings: BreakerSettings) -> Bool {
        guard calls >= Int64(settings.minimumCalls), calls > 0 else { return false }
        if Double(failures) / Double(calls) >= settings.failureRate { return true }
        return settings.slowCall != nil && Double(slow) / Double(calls) >= settings.slowRate
    }
}

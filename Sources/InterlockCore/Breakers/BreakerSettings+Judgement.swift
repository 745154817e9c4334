extension BreakerSettings {
    /// What an outcome that was reported with a status counts as. Whoever ignores a call is not overruled.
    public func judged(_ outcome: Outcome, status: Int?) -> Outcome {
        guard outcome != .ignore, let status else { return outcome }
        if ignoredStatuses.contains(status) { return .ignore }
        return failureStatuses.contains(status) ? .error : outcome
    }

    /// Whether a call that took so long counts as slow.
    public func isSlow(latencyMilliseconds: Int64?) -> Bool {
        guard let slowCall, let latencyMilliseconds else { return false }
        return latencyMilliseconds >= slowCall.wholeMilliseconds
    }

    /// The longest that an upstream's `Retry-After` keeps the breaker open, in milliseconds: then trials find out.
    public var longestPause: Int64 { openFor.upperBound.wholeMilliseconds }

    /// For how many milliseconds an upstream's `Retry-After` opens the breaker; `nil`: not by itself. It does with the
    /// statuses that RFC 9110 and RFC 6585 give it for, and with a failure whose status is not told.
    public func pause(
        askedFor retryAfterMilliseconds: Int64?, outcome: Outcome, status: Int?
    ) -> Int64? {
        guard honoursRetryAfter, !isMetricsOnly, let retryAfterMilliseconds, retryAfterMilliseconds > 0 else { return nil }
        let effective = judged(outcome, status: status)
        switch status {
        case 429, 503: guard effective != .ignore else { return nil }
        case nil: guard effective == .error else { return nil }
        default: return nil
        }
        return min(retryAfterMilliseconds, longestPause)
    }

    /// For how long a sidecar's finding counts towards `reporters`, in milliseconds, when it was for `pause`.
    public func voteMilliseconds(pause: Int64) -> Int64 {
        guard case .time(let length) = window else { return pause }
        return max(length.wholeMilliseconds, pause)
    }

    /// Outcomes are judged by each sidecar for itself, and the fleet counts who finds the service bad.
    public var isByReporters: Bool { reporters > 1 }
}

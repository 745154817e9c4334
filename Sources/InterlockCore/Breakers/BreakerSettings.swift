/// The conditions under which reported outcomes trip a service's breaker, and under which it closes again.
public struct BreakerSettings: Hashable, Sendable {
    /// The calls over which the rates are measured, shared by the fleet.
    public enum Window: Hashable, Sendable {
        /// The calls of the most recent period of this length.
        case time(Duration)
        /// The most recent calls, this many or up to a tenth more.
        case calls(Int)
    }

    /// The number of slices in a window. Outcomes are dropped one slice at a time, the oldest first.
    package static let windowSlices = 10

    /// The fraction of failed calls in the window, 0…1, at which the breaker trips.
    public var failureRate: Double
    /// The minimum duration of a slow call; `nil` if no call counts as slow.
    public var slowCall: Duration?
    /// The fraction of slow calls in the window, 0…1, at which the breaker trips.
    public var slowRate: Double
    /// The calls over which the rates are measured.
    public var window: Window
    /// The minimum number of calls in the window before a rate can trip the breaker.
    public var minimumCalls: Int
    /// The number of consecutive failures across the fleet that trips the breaker, whatever the rates; `nil` for no
    /// limit.
    public var consecutiveFailures: Int?
    /// The number of sidecars that must find the service failing before the breaker trips for the fleet. Until then, it
    /// trips only for those sidecars.
    public var reporters: Int
    /// The range of the open time, which starts at the lower bound and doubles with each failed trial up to the upper
    /// bound.
    public var openFor: ClosedRange<Duration>
    /// The maximum number of trial calls that the fleet may have in flight while half-open. The same number of
    /// successes closes the breaker.
    public var halfOpenPermits: Int
    /// The statuses that count as failures, whatever the reported outcome, unless it is `ignore`.
    public var failureStatuses: StatusSet
    /// The statuses that say nothing about the service's health.
    public var ignoredStatuses: StatusSet
    /// Whether a 429 or 503 with `Retry-After` opens the breaker immediately, for that long.
    public var honorsRetryAfter: Bool
    /// Whether outcomes are counted and shown but never trip the breaker.
    public var isMetricsOnly: Bool

    /// Creates settings. Omitted parameters have their defaults.
    public init(
        failureRate: Double = 0.5,
        slowCall: Duration? = nil,
        slowRate: Double = 0.8,
        window: Window = .time(.seconds(10)),
        minimumCalls: Int = 20,
        consecutiveFailures: Int? = nil,
        reporters: Int = 1,
        openFor: ClosedRange<Duration> = .seconds(5) ... .seconds(60),
        halfOpenPermits: Int = 3,
        failureStatuses: StatusSet = StatusSet(500...599),
        ignoredStatuses: StatusSet = StatusSet(),
        honorsRetryAfter: Bool = true,
        isMetricsOnly: Bool = false
    ) {
        self.failureRate = failureRate
        self.slowCall = slowCall
        self.slowRate = slowRate
        self.window = window
        self.minimumCalls = minimumCalls
        self.consecutiveFailures = consecutiveFailures
        self.reporters = reporters
        self.openFor = openFor
        self.halfOpenPermits = halfOpenPermits
        self.failureStatuses = failureStatuses
        self.ignoredStatuses = ignoredStatuses
        self.honorsRetryAfter = honorsRetryAfter
        self.isMetricsOnly = isMetricsOnly
    }
}

extension BreakerSettings: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("failureRate", failureRate), ("slowCall", slowCall), ("slowRate", slowRate), ("window", window),
            ("minimumCalls", minimumCalls), ("consecutiveFailures", consecutiveFailures), ("reporters", reporters),
            ("openFor", openFor), ("halfOpenPermits", halfOpenPermits), ("failureStatuses", failureStatuses),
            ("ignoredStatuses", ignoredStatuses), ("honoursRetryAfter", honorsRetryAfter),
            ("isMetricsOnly", isMetricsOnly),
        ]
    }
}

extension BreakerSettings.Window: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .time(let length): [("time", length)]
        case .calls(let count): [("calls", count)]
        }
    }
}

extension BreakerSettings {
    /// Returns the effective outcome of a call with this reported outcome and status. No status overrules an explicit
    /// `ignore`.
    package func effectiveOutcome(_ outcome: Outcome, status: Int?) -> Outcome {
        guard outcome != .ignore, let status else { return outcome }
        if ignoredStatuses.contains(status) { return .ignore }
        return failureStatuses.contains(status) ? .error : outcome
    }

    /// Returns whether a call of this duration counts as slow.
    package func isSlow(latencyMilliseconds: Int64?) -> Bool {
        guard let slowCall, let latencyMilliseconds else { return false }
        return latencyMilliseconds >= slowCall.wholeMilliseconds
    }

    /// The maximum time, in milliseconds, for which an upstream's `Retry-After` keeps the breaker open. Trials follow.
    package var maximumPauseMilliseconds: Int64 { openFor.upperBound.wholeMilliseconds }

    /// Returns the milliseconds for which an upstream's `Retry-After` opens the breaker; `nil` if it does not open the
    /// breaker. The field counts with the statuses for which RFC 9110 and RFC 6585 define it (503 and 429), and with a
    /// failure of unknown status.
    package func pauseMilliseconds(askedFor retryAfterMilliseconds: Int64?, outcome: Outcome, status: Int?) -> Int64? {
        guard honorsRetryAfter, !isMetricsOnly, let retryAfterMilliseconds, retryAfterMilliseconds > 0 else {
            return nil
        }
        let effectiveOutcome = effectiveOutcome(outcome, status: status)
        switch status {
        case 429, 503: guard effectiveOutcome != .ignore else { return nil }
        case nil: guard effectiveOutcome == .error else { return nil }
        default: return nil
        }
        return min(retryAfterMilliseconds, maximumPauseMilliseconds)
    }

    /// Returns the milliseconds for which a sidecar's finding counts towards `reporters`.
    /// - Parameter pauseMilliseconds: the time for which the finding opens the breaker.
    package func voteMilliseconds(pauseMilliseconds: Int64) -> Int64 {
        guard case .time(let length) = window else { return pauseMilliseconds }
        return max(length.wholeMilliseconds, pauseMilliseconds)
    }

    /// Whether each sidecar evaluates its own outcomes, and the fleet counts the sidecars that find the service
    /// failing.
    package var isDecidedByVotes: Bool { reporters > 1 }
}

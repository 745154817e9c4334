/// The conditions under which reported outcomes trip a service's breaker, and under which it closes again.
public struct BreakerSettings: Hashable, Sendable {
    /// The calls over which the rates are measured, shared by the fleet.
    public enum Window: Hashable, Sendable {
        /// The calls of the most recent period of this length.
        case time(Duration)
        /// The most recent calls, this many to within a tenth.
        case calls(Int)
    }

    /// The number of slices in a window. Outcomes are dropped one slice at a time, the oldest first.
    package static let windowSlices = 10

    /// The fraction of failed calls in the window, 0…1, at which the breaker trips.
    public var failureRate: Double
    /// The duration from which a call counts as slow; `nil` if durations do not count.
    public var slowCall: Duration?
    /// The fraction of slow calls in the window, 0…1, at which the breaker trips.
    public var slowRate: Double
    /// The calls over which the rates are measured.
    public var window: Window
    /// The number of calls that the window must hold before the rates can trip the breaker.
    public var minimumCalls: Int
    /// The number of consecutive failures across the fleet that trips the breaker, whatever the rates; `nil` for no
    /// limit.
    public var consecutiveFailures: Int?
    /// The number of sidecars that must find the service failing before the breaker trips for the fleet. With
    /// fewer, it trips only for the sidecars that found it.
    public var reporters: Int
    /// The range of the open time, which starts at the lower bound and doubles with each failed trial up to the upper
    /// bound.
    public var openFor: ClosedRange<Duration>
    /// The maximum number of trial calls that the fleet may have in flight while half-open. The same number of
    /// successes closes the breaker.
    public var halfOpenPermits: Int
    /// The statuses that count as failures, whatever outcome was reported.
    public var failureStatuses: StatusSet
    /// The statuses that say nothing about the service's health.
    public var ignoredStatuses: StatusSet
    /// Whether a 429 or 503 with `Retry-After` opens the breaker immediately, for that long.
    public var honoursRetryAfter: Bool
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
        honoursRetryAfter: Bool = true,
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
        self.honoursRetryAfter = honoursRetryAfter
        self.isMetricsOnly = isMetricsOnly
    }
}

extension BreakerSettings: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("failureRate", failureRate), ("slowCall", slowCall), ("slowRate", slowRate), ("window", window),
            ("minimumCalls", minimumCalls), ("consecutiveFailures", consecutiveFailures), ("reporters", reporters),
            ("openFor", openFor), ("halfOpenPermits", halfOpenPermits), ("failureStatuses", failureStatuses),
            ("ignoredStatuses", ignoredStatuses), ("honoursRetryAfter", honoursRetryAfter), ("isMetricsOnly", isMetricsOnly),
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
    /// Returns the effective outcome of a call that was reported with a status. An explicit `ignore` is never
    /// overruled.
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

    /// The maximum time, in milliseconds, for which an upstream's `Retry-After` keeps the breaker open; trials follow.
    package var maximumPause: Int64 { openFor.upperBound.wholeMilliseconds }

    /// Returns the milliseconds for which an upstream's `Retry-After` opens the breaker; `nil` if it does not open it.
    /// The field counts with the statuses for which RFC 9110 and RFC 6585 define it, and with a failure whose status
    /// is unknown.
    package func pause(
        askedFor retryAfterMilliseconds: Int64?, outcome: Outcome, status: Int?
    ) -> Int64? {
        guard honoursRetryAfter, !isMetricsOnly, let retryAfterMilliseconds, retryAfterMilliseconds > 0 else { return nil }
        let effective = effectiveOutcome(outcome, status: status)
        switch status {
        case 429, 503: guard effective != .ignore else { return nil }
        case nil: guard effective == .error else { return nil }
        default: return nil
        }
        return min(retryAfterMilliseconds, maximumPause)
    }

    /// Returns the milliseconds for which a sidecar's finding counts towards `reporters`, if the finding asks for
    /// `pause`.
    package func voteMilliseconds(pause: Int64) -> Int64 {
        guard case .time(let length) = window else { return pause }
        return max(length.wholeMilliseconds, pause)
    }

    /// Whether each sidecar evaluates outcomes for itself and the fleet counts the sidecars that find the service
    /// failing.
    package var isDecidedByVotes: Bool { reporters > 1 }
}

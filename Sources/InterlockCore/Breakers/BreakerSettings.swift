/// When a service's breaker trips by reported outcomes, and how it comes back.
public struct BreakerSettings: Hashable, Sendable {
    /// Over which calls the rates are judged, shared by the fleet.
    public enum Window: Hashable, Sendable {
        /// Those of the last so much time.
        case time(Duration)
        /// The last so many, to within a tenth.
        case calls(Int)
    }

    /// What a window is divided into: the oldest of these parts goes as a whole.
    package static let windowSlices = 10

    /// The share of failed calls in the window, 0…1, from which the breaker trips.
    public var failureRate: Double
    /// From which duration a call counts as slow; `nil`: calls are not judged by their duration.
    public var slowCall: Duration?
    /// The share of slow calls in the window, 0…1, from which the breaker trips.
    public var slowRate: Double
    /// Over which calls the rates are judged.
    public var window: Window
    /// The rates are not judged before the window holds so many calls.
    public var minimumCalls: Int
    /// So many failures in a row, as the fleet reports them, trip the breaker whatever the rates are; `nil`: they do not.
    public var consecutiveFailures: Int?
    /// So many different sidecars must find the service bad before it trips for all; one that alone does trips for itself.
    public var reporters: Int
    /// Open time: starts at the lower bound, doubles with each failed trial, ends at the upper one.
    public var openFor: ClosedRange<Duration>
    /// How many trial calls the whole fleet may have under way in half-open; so many successes close the breaker.
    public var halfOpenPermits: Int
    /// Statuses that are failures, whatever else was reported.
    public var failureStatuses: StatusSet
    /// Statuses that say nothing of the service's health.
    public var ignoredStatuses: StatusSet
    /// A 429 or 503 with `Retry-After` opens the breaker at once, for that long.
    public var honoursRetryAfter: Bool
    /// Outcomes are counted and shown, and nothing trips by them.
    public var isMetricsOnly: Bool

    /// Settings; what is left out has its default.
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
    /// What an outcome that was reported with a status counts as. Whoever ignores a call is not overruled.
    package func judged(_ outcome: Outcome, status: Int?) -> Outcome {
        guard outcome != .ignore, let status else { return outcome }
        if ignoredStatuses.contains(status) { return .ignore }
        return failureStatuses.contains(status) ? .error : outcome
    }

    /// Whether a call that took so long counts as slow.
    package func isSlow(latencyMilliseconds: Int64?) -> Bool {
        guard let slowCall, let latencyMilliseconds else { return false }
        return latencyMilliseconds >= slowCall.wholeMilliseconds
    }

    /// The longest that an upstream's `Retry-After` keeps the breaker open, in milliseconds: then trials find out.
    package var longestPause: Int64 { openFor.upperBound.wholeMilliseconds }

    /// For how many milliseconds an upstream's `Retry-After` opens the breaker; `nil`: not by itself. It does with the
    /// statuses that RFC 9110 and RFC 6585 give it for, and with a failure whose status is not told.
    package func pause(
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
    package func voteMilliseconds(pause: Int64) -> Int64 {
        guard case .time(let length) = window else { return pause }
        return max(length.wholeMilliseconds, pause)
    }

    /// Outcomes are judged by each sidecar for itself, and the fleet counts who finds the service bad.
    package var isByReporters: Bool { reporters > 1 }
}

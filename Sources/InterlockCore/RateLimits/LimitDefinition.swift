/// One limit of a service: a total cost of at most `limit` in each window. The default cost of a call is 1.
public struct LimitDefinition: Hashable, Sendable {
    /// The largest allowed limit.
    public static let maximumLimit: Int64 = 1_000_000_000_000_000
    /// The largest `sliding` limit: each grant is remembered for one window.
    public static let maximumSlidingLimit: Int64 = 10_000
    /// The largest `gcra` limit: beyond it, the arithmetic would not be exact.
    public static let maximumGCRALimit: Int64 = 1_000_000_000
    /// The largest `burst` of a `gcra` limit.
    public static let maximumBurst: Int64 = 1_000_000

    /// The limit's name in the keys of its counters, unique within the service. A configuration's default is the
    /// window, such as `1s`, or `1s-subject` for a limit per subject. The name contains no colon or tilde, so that no
    /// limit's key can equal another limit's key with a subject or a suffix.
    public var name: String
    /// The maximum cost granted in one window, 1 or more.
    public var limit: Int64
    /// The period in which `limit` may be granted.
    public var window: Duration
    /// The counting algorithm.
    public var algorithm: LimitAlgorithm
    /// Whether each subject has its own count. Such a limit applies only to calls that name a subject.
    public var isPerSubject: Bool
    /// Whether the limit only counts and reports what it would refuse. It then refuses no call.
    public var isShadow: Bool
    /// Whether a call without a subject is rejected as invalid instead of passing uncounted. For limits that count per
    /// subject.
    public var requiresSubject: Bool

    /// Creates a limit. A configuration validates its limits.
    public init(
        name: String, limit: Int64, window: Duration, algorithm: LimitAlgorithm = .fixed, isPerSubject: Bool = false,
        isShadow: Bool = false, requiresSubject: Bool = false
    ) {
        self.name = name
        self.limit = limit
        self.window = window
        self.algorithm = algorithm
        self.isPerSubject = isPerSubject
        self.isShadow = isShadow
        self.requiresSubject = requiresSubject
    }

    /// The window's length in milliseconds.
    package var windowMilliseconds: Int64 { window.wholeMilliseconds }

    /// How long a grant counts, in milliseconds: the window, or for `gcra` the refill time of the capacity if that is
    /// longer.
    package var retentionMilliseconds: Int64 {
        guard case .gcra = algorithm else { return windowMilliseconds }
        return max(windowMilliseconds, cellRate.time(of: capacity).microseconds / 1000 + 1)
    }

    /// The maximum cost that can be granted at once, after a long idle time; a higher cost is never granted.
    package var capacity: Int64 {
        if case .gcra(let burst) = algorithm { burst + 1 } else { limit }
    }

    /// The rate of a `gcra` limit.
    package var cellRate: CellRate {
        CellRate(limit: limit, windowMicroseconds: windowMilliseconds * 1000, capacity: capacity)
    }

    /// Returns the minimum time in which `cost` can be granted when nothing is left, in microseconds: for `gcra` the
    /// time of its units, otherwise one window for each started multiple of the limit after the first.
    func minimumMicroseconds(toGrant cost: Int64) -> Int64 {
        if case .gcra = algorithm { return cellRate.time(of: max(0, cost)).microseconds }
        let (time, overflow) = ((max(1, cost) - 1) / limit).multipliedReportingOverflow(by: windowMilliseconds * 1000)
        return overflow ? .max : time
    }
}

extension LimitDefinition: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("name", name), ("limit", limit), ("window", window), ("algorithm", algorithm),
            ("isPerSubject", isPerSubject),
            ("isShadow", isShadow), ("requiresSubject", requiresSubject),
        ]
    }
}

extension LimitPolicy.Action: DigestedSetting {}

/// How a limit counts.
public enum LimitAlgorithm: Hashable, Sendable {
    /// A counter that its first call sets up and that is gone a window later. Cheapest; across an edge between two windows
    /// up to twice the limit can pass.
    case fixed
    /// A log of what was granted: in no window of that length, wherever it begins, more than the limit.
    case sliding
    /// Evenly spaced calls, with `burst` of them ahead of their time: the generic cell rate algorithm of ITU-T I.371, as
    /// redis-cell keeps it. In no window more than the limit and the burst.
    case gcra(burst: Int64)

    /// As the configuration spells it.
    package enum Name: String, CaseIterable, Sendable {
        case fixed, sliding, gcra
    }

    package var name: Name {
        switch self {
        case .fixed: .fixed
        case .sliding: .sliding
        case .gcra: .gcra
        }
    }
}

extension LimitAlgorithm: DigestedSetting {
    package var digestedParts: Parts {
        if case .gcra(let burst) = self { [("gcra.burst", burst)] } else { [] }
    }
    package var digestedText: String { name.rawValue }
}

/// One limit of a service: at most `limit` calls (or cost) in each window.
public struct LimitDefinition: Hashable, Sendable {
    /// The most that any limit may allow.
    public static let largestLimit: Int64 = 1_000_000_000_000_000
    /// The most that a `sliding` limit may allow in its window: each grant is remembered for as long.
    public static let largestSlidingLimit: Int64 = 10_000
    /// The most of a `gcra` limit and of its burst: beyond, its arithmetic would not be exact.
    public static let largestSmoothLimit: Int64 = 1_000_000_000
    /// The largest `burst` of a `gcra` limit.
    public static let largestBurst: Int64 = 1_000_000

    /// The part of the counter's key that names this limit; unique within the service. By default its window: `1s`. It has
    /// neither a colon nor a tilde, so that no limit's key can be another's key with a subject or a suffix.
    public var name: String
    /// The most that is granted in one window, 1 or more.
    public var limit: Int64
    /// The window's length.
    public var window: Duration
    /// How it counts.
    public var algorithm: LimitAlgorithm
    /// Whether each subject has a count of its own; such a limit binds only calls that name a subject.
    public var isPerSubject: Bool
    /// It counts and reports what it would refuse, and refuses nobody.
    public var isShadow: Bool
    /// A call that names no subject is refused as invalid, not let pass uncounted. For a limit that counts per subject.
    public var requiresSubject: Bool

    /// A limit; it is checked when a configuration is made of it.
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

    /// In how many milliseconds nothing counts any more of what was granted: the window, or of `gcra` the time of all that can be granted at
    /// once where that is longer.
    package var memoryMilliseconds: Int64 {
        guard case .gcra = algorithm else { return windowMilliseconds }
        return max(windowMilliseconds, cellRate.time(of: capacity).whole / 1000 + 1)
    }

    /// What can be granted at one instant when nothing was granted for long; a higher cost can never be granted.
    package var capacity: Int64 {
        if case .gcra(let burst) = algorithm { burst + 1 } else { limit }
    }

    /// The rate of a `gcra` limit.
    package var cellRate: CellRate {
        CellRate(limit: limit, windowMicroseconds: windowMilliseconds * 1000, capacity: capacity)
    }

    /// The least time in which `cost` can be granted when none is left, in microseconds: for `gcra` a call's own time for
    /// each, else a window for each limit of it that is begun, but for the first.
    func leastTime(toGrant cost: Int64) -> Int64 {
        if case .gcra = algorithm { return cellRate.time(of: max(0, cost)).whole }
        let (time, overflow) = ((max(1, cost) - 1) / limit).multipliedReportingOverflow(by: windowMilliseconds * 1000)
        return overflow ? .max : time
    }
}

extension LimitDefinition: DigestedSetting {
    package var digestedParts: Parts {
        [
            ("name", name), ("limit", limit), ("window", window), ("algorithm", algorithm), ("isPerSubject", isPerSubject),
            ("isShadow", isShadow), ("requiresSubject", requiresSubject),
        ]
    }
}

/// What a service does when a limit is reached, besides refusing the call.
public struct LimitPolicy: Hashable, Sendable {
    /// What becomes of a call at the limit.
    public enum Action: String, CaseIterable, Sendable {
        /// A guarded proxy call waits for its turn; a call by `TAKE` or `PERMIT` is refused at once unless it said `WAIT`.
        case wait
        /// The call is refused.
        case deny
        /// The call is refused and the breaker opens for the pause.
        case trip
    }

    /// What becomes of a call at the limit.
    public var action: Action
    /// For how long a trip by the limit opens the breaker: a random time between these two.
    public var pause: ClosedRange<Duration>
    /// For how long a guarded call waits for its turn, at a limit and for a free place, before it is refused.
    public var patience: Duration
    /// The most calls that may wait for a turn in this sidecar, for this service; and as many for a free place.
    public var maximumWaiting: Int

    /// A policy; what is left out has its default.
    public init(
        action: Action = .deny,
        pause: ClosedRange<Duration> = .seconds(2) ... .seconds(3),
        patience: Duration = .seconds(5),
        maximumWaiting: Int = 1000
    ) {
        self.action = action
        self.pause = pause
        self.patience = patience
        self.maximumWaiting = maximumWaiting
    }
}

extension LimitPolicy: DigestedSetting {
    package var digestedParts: Parts {
        [("action", action), ("pause", pause), ("patience", patience), ("maximumWaiting", maximumWaiting)]
    }
}

extension LimitPolicy.Action: DigestedSetting {}

/// What a service's limits and breaker do while Redis cannot be reached.
public enum OutagePolicy: String, CaseIterable, Hashable, Sendable {
    /// This sidecar grants its own share: limit ÷ sidecars.
    case local
    /// Everything is granted.
    case allow
    /// Everything is refused as unavailable.
    case deny
}

extension OutagePolicy: DigestedSetting {}

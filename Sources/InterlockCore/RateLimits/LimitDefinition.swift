/// One limit of a service: at most `limit` calls (or cost) in each window.
public struct LimitDefinition: Hashable, Sendable {
    /// The part of the counter's key that names this limit; unique within the service. By default its window: `1s`.
    public var name: String
    /// The most that is granted in one window, 1 or more.
    public var limit: Int64
    /// The window's length.
    public var window: Duration
    /// Whether each subject has a count of its own; such a limit binds only calls that name a subject.
    public var isPerSubject: Bool

    public init(name: String, limit: Int64, window: Duration, isPerSubject: Bool = false) {
        self.name = name
        self.limit = limit
        self.window = window
        self.isPerSubject = isPerSubject
    }

    /// The window's length in milliseconds.
    public var windowMilliseconds: Int64 { window.wholeMilliseconds }
}

/// What a service does when a limit is reached, besides refusing the call.
public struct LimitPolicy: Hashable, Sendable {
    public enum Action: String, CaseIterable, Sendable {
        /// A guarded proxy call waits for its turn; a call by `TAKE` or `PERMIT` is refused at once unless it said `WAIT`.
        case wait
        /// The call is refused.
        case deny
        /// The call is refused and the breaker opens for the pause.
        case trip
    }

    public var action: Action
    /// For how long a trip by the limit opens the breaker: a random time between these two.
    public var pause: ClosedRange<Duration>
    /// The most calls that may wait for a turn in this sidecar, for this service.
    public var maximumWaiting: Int

    public init(
        action: Action = .deny,
        pause: ClosedRange<Duration> = .seconds(2) ... .seconds(3),
        maximumWaiting: Int = 1000
    ) {
        self.action = action
        self.pause = pause
        self.maximumWaiting = maximumWaiting
    }
}

/// What a service's limits and breaker do while Redis cannot be reached.
public enum OutagePolicy: String, CaseIterable, Hashable, Sendable {
    /// This sidecar grants its own share: limit ÷ sidecars.
    case local
    /// Everything is granted.
    case allow
    /// Everything is refused as unavailable.
    case deny
}

/// The handling of calls when a limit of a service is reached.
public struct LimitPolicy: Hashable, Sendable {
    /// The handling of a call that reaches the limit.
    public enum Action: String, CaseIterable, Sendable {
        /// A guarded proxy call waits for its turn. `LIMIT.TAKE` and `PERMIT.ACQUIRE` wait only with the option `WAIT`,
        /// and are refused immediately without it.
        case wait
        /// The call is refused.
        case deny
        /// The call is refused and the breaker opens for the pause.
        case trip
    }

    /// The handling of a call that reaches the limit.
    public var action: Action
    /// The range of the random time for which a trip by the limit opens the breaker.
    public var pause: ClosedRange<Duration>
    /// How long a guarded call waits for its turn at a limit and for a free slot before it is refused.
    public var maximumWait: Duration
    /// The maximum number of calls of this service that may wait for a turn in this sidecar; the same number may wait
    /// for a free slot.
    public var maximumWaiting: Int

    /// Creates a policy.
    public init(
        action: Action = .deny,
        pause: ClosedRange<Duration> = .seconds(2) ... .seconds(3),
        maximumWait: Duration = .seconds(5),
        maximumWaiting: Int = 1000
    ) {
        self.action = action
        self.pause = pause
        self.maximumWait = maximumWait
        self.maximumWaiting = maximumWaiting
    }
}

extension LimitPolicy: DigestedSetting {
    package var digestedParts: Parts {
        [("action", action), ("pause", pause), ("patience", maximumWait), ("maximumWaiting", maximumWaiting)]
    }
}

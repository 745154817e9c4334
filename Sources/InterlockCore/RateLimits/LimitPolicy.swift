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
    /// For how long a guarded call waits for its turn, at a limit and for a free place, before it is refused.
    public var patience: Duration
    /// The most calls that may wait for a turn in this sidecar, for this service; and as many for a free place.
    public var maximumWaiting: Int

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

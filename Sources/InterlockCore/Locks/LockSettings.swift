/// The bounds that every lock of a sidecar lives within.
public struct LockSettings: Hashable, Sendable {
    /// `nil`: locks live under the sidecar's prefix, as `interlock:lock:{NAME}`. Otherwise the key is this prefix and the
    /// bare name, so that other libraries' holders on the same key exclude Interlock's and the other way round.
    public var keyPrefix: String?
    /// No lease can be shorter: what is taken off for drift would leave nothing.
    public static let shortestTTL = Duration.milliseconds(5)

    /// The shortest lease.
    public var minimumTTL: Duration
    /// The longest lease.
    public var maximumTTL: Duration
    /// The longest wait; a longer one asked for is cut to it.
    public var maximumWait: Duration
    /// How long a lease that the sidecar extends may be held; `nil`: for as long as its client lives.
    public var maximumHold: Duration?
    /// How many replicas must have a lease before it is handed out; 0: none.
    public var waitReplicas: Int
    /// How long Redis remembers the last fence of a lock that nobody takes again; at least as long as its last lease.
    public var fenceLifetime: Duration

    /// A day.
    public static let defaultFenceLifetime = Duration.seconds(86400)

    /// Bounds; what is left out has its default.
    public init(
        keyPrefix: String? = nil, minimumTTL: Duration = Self.shortestTTL,
        maximumTTL: Duration = .seconds(3600), maximumWait: Duration = .seconds(60),
        maximumHold: Duration? = nil, waitReplicas: Int = 0, fenceLifetime: Duration = Self.defaultFenceLifetime
    ) {
        self.keyPrefix = keyPrefix
        self.minimumTTL = minimumTTL
        self.maximumTTL = maximumTTL
        self.maximumWait = maximumWait
        self.maximumHold = maximumHold
        self.waitReplicas = waitReplicas
        self.fenceLifetime = fenceLifetime
    }
}

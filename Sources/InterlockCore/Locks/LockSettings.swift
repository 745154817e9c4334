/// The bounds that every lock of a sidecar lives within.
public struct LockSettings: Hashable, Sendable {
    /// `nil`: locks live under the sidecar's prefix, as `interlock:lock:{NAME}`. Otherwise the key is this prefix and the
    /// bare name, so that other libraries' holders on the same key exclude Interlock's and the other way round.
    public var keyPrefix: String?
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

    public static let defaultFenceLifetime = Duration.seconds(86400)

    public init(
        keyPrefix: String? = nil, maximumTTL: Duration = .seconds(3600), maximumWait: Duration = .seconds(60),
        maximumHold: Duration? = nil, waitReplicas: Int = 0, fenceLifetime: Duration = Self.defaultFenceLifetime
    ) {
        self.keyPrefix = keyPrefix
        self.maximumTTL = maximumTTL
        self.maximumWait = maximumWait
        self.maximumHold = maximumHold
        self.waitReplicas = waitReplicas
        self.fenceLifetime = fenceLifetime
    }
}

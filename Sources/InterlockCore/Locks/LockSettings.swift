/// The limits that apply to every lock of a sidecar.
public struct LockSettings: Hashable, Sendable {
    /// The prefix of the locks' keys; `nil` for keys such as `interlock:lock:{NAME}`, with the sidecar's own prefix.
    /// Otherwise a key is this prefix and the bare name, so that Interlock and other libraries can share the same
    /// locks.
    public var keyPrefix: String?
    /// The shortest possible TTL. The allowance for clock drift would use up most of a shorter one.
    public static let absoluteMinimumTTL = Duration.milliseconds(5)

    /// The minimum TTL of a lease.
    public var minimumTTL: Duration
    /// The maximum TTL of a lease.
    public var maximumTTL: Duration
    /// The maximum wait. A request to wait longer waits this long.
    public var maximumWait: Duration
    /// The maximum time to hold a lease that the sidecar renews; `nil` for no limit while its client is connected.
    public var maximumHold: Duration?
    /// The number of replicas that must confirm a lease before the caller receives it; 0 to wait for no replica.
    public var waitReplicas: Int
    /// How long Redis remembers the last fence of an unused lock, at least until the lock's last lease ends.
    public var fenceLifetime: Duration

    /// The default of `fenceLifetime`, one day.
    public static let defaultFenceLifetime = Duration.seconds(86400)

    /// Creates settings. Omitted parameters have their defaults.
    public init(
        keyPrefix: String? = nil, minimumTTL: Duration = Self.absoluteMinimumTTL,
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

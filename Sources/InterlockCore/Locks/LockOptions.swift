/// The options for acquiring and holding a lock.
public struct LockOptions: Hashable, Sendable {
    /// The lease's TTL.
    public var ttl: Duration
    /// The maximum time to wait for the lock; zero does not wait. The configuration may set a lower maximum.
    public var wait: Duration
    /// The mode in which to hold the lock: exclusively, as one of the readers, or as one of a semaphore's holders.
    public var mode: LockMode
    /// The token to hold the lock with; `nil` for a new one. The same owner asking again gets the same lease, renewed,
    /// so a retry is safe.
    public var owner: String?
    /// The holder's name, as others see it; `nil` for the host's name.
    public var label: String?

    /// Creates options with these values.
    public init(
        ttl: Duration = .seconds(30), wait: Duration = .zero, mode: LockMode = .exclusive, owner: String? = nil,
        label: String? = nil
    ) {
        self.ttl = ttl
        self.wait = wait
        self.mode = mode
        self.owner = owner
        self.label = label
    }
}

/// How a lock is acquired and held.
public struct LockOptions: Hashable, Sendable {
    /// The lease's length.
    public var ttl: Duration
    /// How long to wait for the lock; zero: not at all. The configuration may have a lower maximum.
    public var wait: Duration
    /// Alone, as one of the readers, or as one of a semaphore's holders.
    public var mode: LockMode
    /// The token to hold the lock by. The same owner asking again gets the same lease, extended, so a retry is safe;
    /// `nil`: a new token is made.
    public var owner: String?
    /// The holder's name for others to see; `nil`: the host's name.
    public var label: String?

    /// Options with these values.
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

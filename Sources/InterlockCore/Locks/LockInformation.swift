/// The public description of a lock. It never contains a token.
public struct LockInformation: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The holder's label, or `foreign` for other software; `nil` if the lock is free.
    public var label: String?
    /// The last fence that was granted; `nil` if Redis no longer remembers one.
    public var fence: Int64?
    /// The milliseconds until the last lease ends; -1 if the lock never expires, 0 if it is free.
    package var ttlMilliseconds: Int64
    /// The mode in which the lock is held; `nil` if it is free.
    public var mode: LockMode?
    /// The number of holders.
    public var holders: Int
    /// The holders' leases. If there are too many to list, those that end first. A slot on offer to a waiting sidecar
    /// has no holder.
    public var leases: [LeaseInformation]
    /// The number of callers that wait in this sidecar, plus the number of other sidecars that have waiting callers.
    public var waiters: Int
    /// The sidecars with waiting callers, in the order of their turns; at most 100.
    public var queue: [WaitingSidecar]

    package init(
        name: String, label: String?, fence: Int64?, ttlMilliseconds: Int64, mode: LockMode?, holders: Int,
        leases: [LeaseInformation], waiters: Int, queue: [WaitingSidecar]
    ) {
        self.name = name
        self.label = label
        self.fence = fence
        self.ttlMilliseconds = ttlMilliseconds
        self.mode = mode
        self.holders = holders
        self.leases = leases
        self.waiters = waiters
        self.queue = queue
    }

    /// Creates the description of a lock without holders and waiters.
    package init(unheld name: ResourceName) {
        self.init(
            name: name.text, label: nil, fence: nil, ttlMilliseconds: 0, mode: nil, holders: 0, leases: [], waiters: 0,
            queue: [])
    }

    /// Whether the lock has a holder.
    public var isHeld: Bool { label != nil }
    /// The time until the last lease ends; `nil` if the lock is free or never expires (see `neverExpires`).
    public var remaining: Duration? { isHeld && !neverExpires ? .milliseconds(ttlMilliseconds) : nil }
    /// Whether the lock's key has no time to live: other software holds it until it deletes the key.
    public var neverExpires: Bool { ttlMilliseconds < 0 }
}

/// One grant of a lock, for a limited time.
public struct Lease: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The credential that renews and releases the lease.
    public var token: String
    /// The fencing token, higher than that of every earlier grant. Pass it to the guarded resource, which refuses a
    /// lower one.
    public var fence: Int64
    package var validMilliseconds: Int64
    package var ttlMilliseconds: Int64
    /// The holder's deadline. It is in the past for a lease acquired through a sidecar, because only the sidecar can
    /// track it.
    package var deadline: Instant
    /// The value of the lock's key if the lock may have several holders; `nil` if the value is the token.
    package var group: String?
    /// Whether the owner chose the token.
    package var hasOwnerToken: Bool

    package init(
        name: String, token: String, fence: Int64, validMilliseconds: Int64, ttlMilliseconds: Int64,
        deadline: Instant = unknownDeadline, group: String? = nil, hasOwnerToken: Bool = false
    ) {
        self.name = name
        self.token = token
        self.fence = fence
        self.validMilliseconds = validMilliseconds
        self.ttlMilliseconds = ttlMilliseconds
        self.deadline = deadline
        self.group = group
        self.hasOwnerToken = hasOwnerToken
    }

    /// The deadline of a lease acquired through a sidecar.
    package static let unknownDeadline = Instant(nanoseconds: .min)

    /// The number of slots of the semaphore that this lease belongs to; `nil` for another mode, or if the lease came
    /// through a sidecar. A held semaphore keeps the size that its first holder asked for, whatever this holder asked
    /// for.
    public var permits: Int? { group.flatMap { LockMode.slots(ofGroup: $0) } }

    /// How long the holder can rely on the lease after the grant arrived: its TTL, less the duration of the call and an
    /// allowance for clock drift.
    public var validity: Duration { .milliseconds(validMilliseconds) }
    /// The requested TTL.
    public var ttl: Duration { .milliseconds(ttlMilliseconds) }

    /// The fence if the owner chose the token. Later grants reuse that token, so the fence keeps a late renewal or
    /// release from affecting them.
    package var expectedFence: Int64? { hasOwnerToken ? fence : nil }

    /// The time at which the lease was requested from Redis.
    package var requestedAt: Instant { LeaseValidity.sentAt(deadline: deadline, ttlMilliseconds: ttlMilliseconds) }
}

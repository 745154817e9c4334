public import InterlockCore

/// A wish for a lock.
public struct LockRequest: Sendable {
    public var name: ResourceName
    /// The lease's length in milliseconds.
    public var ttl: Int64
    /// How long to wait for it, in milliseconds; 0: not at all.
    public var wait: Int64
    /// The owner's token. The same owner asking again gets the same lease; `nil`: a new token is made.
    public var owner: String?
    /// What others see of the owner; `nil`: this host's name.
    public var label: String?

    public init(name: ResourceName, ttl: Int64, wait: Int64 = 0, owner: String? = nil, label: String? = nil) {
        self.name = name
        self.ttl = ttl
        self.wait = wait
        self.owner = owner
        self.label = label
    }
}

/// One grant of a lock.
public struct Lease: Hashable, Sendable {
    public var name: String
    /// The credential that renews and releases it.
    public var token: String
    /// Strictly higher than that of every grant before; the guarded resource refuses a lower one.
    public var fence: Int64
    /// For how long it can be relied on, in milliseconds from the moment of the answer.
    public var validMilliseconds: Int64
}

/// What became of a wish for a lock.
public enum LockAnswer: Sendable {
    case granted(Lease)
    /// Another has it, also at the end of the wait.
    case held
    case failed(InterlockError)
}

/// What became of a renewal.
public enum RenewAnswer: Sendable {
    /// For so many milliseconds it can be relied on.
    case renewed(validMilliseconds: Int64)
    /// The lock is not held by that token.
    case lost
    case failed(InterlockError)
}

/// What became of a release, or of a break.
public enum ReleaseAnswer: Sendable {
    case released
    /// The lock is not held by that token; of a break: there is no lease.
    case lost
    case failed(InterlockError)
}

/// What anybody may know of a lock.
public struct LockInformation: Hashable, Sendable {
    public var name: String
    /// The holder's label, or `foreign`; `nil`: nobody holds it.
    public var label: String?
    /// The last fence that was granted; `nil`: none within a day.
    public var fence: Int64?
    /// What is left of the lease in milliseconds; -1: without end; 0: nobody holds it.
    public var ttlMilliseconds: Int64
    /// Callers that wait here, and other sidecars that do.
    public var waiters: Int
}

/// One step through the names of the locks that are held.
public struct LockPage: Hashable, Sendable {
    /// Hand it in for the next step; `0`: this was the last.
    public var cursor: String
    /// May name a lock twice, as any `SCAN` may.
    public var names: [String]
}

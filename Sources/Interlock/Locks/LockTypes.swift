public import InterlockCore

/// A request for a lock.
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
    /// Whether it is to be held alone or with others.
    public var mode: LockMode

    public init(
        name: ResourceName, ttl: Int64, wait: Int64 = 0, owner: String? = nil, label: String? = nil,
        mode: LockMode = .exclusive
    ) {
        self.name = name
        self.ttl = ttl
        self.wait = wait
        self.owner = owner
        self.label = label
        self.mode = mode
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
    /// Its length in milliseconds, as it was asked for.
    public var ttl: Int64
    /// When it is over for its holder.
    var deadline: Instant
    /// What the lock's key holds while several hold the lock; `nil`: the token.
    var group: String?
    /// Its owner chose the token.
    var isOwners = false
}

/// Why a lease was lost before its holder released it.
public enum LeaseLoss: String, Hashable, Sendable {
    /// An operator took it.
    case broken
    /// The lock's key was deleted.
    case deleted
    /// Another token is in the lock.
    case taken
    /// Its time was over before it was extended.
    case expired
    /// The sidecar is going down and no longer extends it: it lapses in its own time.
    case shutdown
}

/// The answer to a lock request.
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
    /// What is left of the lease in milliseconds, of several the longest; -1: without end; 0: nobody holds it.
    public var ttlMilliseconds: Int64
    /// How many hold it.
    public var holders: Int
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

/// A request for several locks: all or none.
public struct JointLockRequest: Sendable {
    /// Each once. Leases are answered in this order.
    public var names: [ResourceName]
    /// What is asked for each of them; its name does not matter, its wait is for all together.
    public var template: LockRequest

    public init(names: [ResourceName], template: LockRequest) {
        self.names = names
        self.template = template
    }
}

/// The answer to a request for several locks.
public enum JointLockAnswer: Sendable {
    case granted([Lease])
    /// Another has one of them, also at the end of the wait; none is taken.
    case held
    case failed(InterlockError)
}

/// A lease that is looked after for its holder.
public struct FollowedLease: Sendable {
    /// By which it is no longer followed.
    public var follower: LeaseFollower
    /// At most one, at the lease's own deadline at the latest; ends without one when the lease is released.
    public var losses: AsyncStream<LeaseLoss>
}

/// A lease that was looked after is so no longer.
public struct LeaseEnd: Sendable {
    public var follower: LeaseFollower
    public var name: String
    public var token: String
    /// `nil`: its holder released it.
    public var loss: LeaseLoss?
}

/// A lease that is looked after; see `CoordinatorCalls.followLease`.
public struct LeaseFollower: Hashable, Comparable, Sendable {
    let id: UInt64

    /// In the order in which they began to follow.
    public static func < (left: Self, right: Self) -> Bool { left.id < right.id }
}

/// Why `Locks` could not do what was asked: held, lost and unreachable are never the same.
public struct LockError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on.
    public enum Code: Hashable, Sendable {
        /// Another has the lock, and nobody wanted to wait.
        case held
        /// Another had the lock until the wait was over.
        case timedOut
        /// The lease was lost while the body ran.
        case lost(LeaseLoss)
        /// Redis cannot be reached or cannot serve.
        case unavailable
        /// The request itself is wrong.
        case invalid
        /// The task was cancelled.
        case cancelled
    }

    public var code: Code
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}

extension LockError {
    init(_ error: InterlockError) {
        let code: Code =
            switch error.code {
            case .invalid, .unknownService: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, error.message)
    }
}

public import InterlockCore

/// A request for a lock.
package struct LockRequest: Sendable {
    package var name: ResourceName
    /// The lease's length in milliseconds.
    package var ttl: Int64
    /// How long to wait for it, in milliseconds; 0: not at all.
    package var wait: Int64
    /// The owner's token. The same owner asking again gets the same lease; `nil`: a new token is made.
    package var owner: String?
    /// What others see of the owner; `nil`: this host's name.
    package var label: String?
    /// Whether it is to be held alone or with others.
    package var mode: LockMode

    package init(
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
    /// The lock's name.
    public var name: String
    /// The credential that renews and releases it.
    public var token: String
    /// Strictly higher than that of every grant before; the guarded resource refuses a lower one.
    public var fence: Int64
    package var validMilliseconds: Int64
    package var ttlMilliseconds: Int64
    /// When it is over for its holder.
    var deadline: Instant
    /// What the lock's key holds while several hold the lock; `nil`: the token.
    var group: String?
    /// Its owner chose the token.
    var isOwners = false

    /// The number of slots of the semaphore that this lease has one of; `nil` if it is not of a semaphore. A held
    /// semaphore keeps the size that its first holder asked for, whatever this holder asked for.
    public var permits: Int? { group.flatMap { LockMode.places(ofGroup: $0) } }

    /// How long it can be relied on from the moment of the answer: its length, less the time the grant took and an
    /// allowance for clocks that drift.
    public var validity: Duration { .milliseconds(validMilliseconds) }
    /// Its length, as it was asked for.
    public var ttl: Duration { .milliseconds(ttlMilliseconds) }
}

/// Why a lease was lost before its holder released it. Later versions may know more reasons: a `switch` needs a `default`.
public struct LeaseLoss: RawRepresentable, Hashable, Sendable {
    /// The reason's name, as events and the RESP door spell it.
    public let rawValue: String

    /// A reason by its name.
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// An operator broke the lock.
    public static let broken = LeaseLoss(rawValue: "broken")
    /// The lock's key was deleted.
    public static let deleted = LeaseLoss(rawValue: "deleted")
    /// Another token, or a later lease of the same owner, holds the lock.
    public static let taken = LeaseLoss(rawValue: "taken")
    /// Its time was over before it was extended.
    public static let expired = LeaseLoss(rawValue: "expired")
    /// The coordinator is stopping. It no longer extends or watches the lease, which lapses in its own time.
    public static let shutdown = LeaseLoss(rawValue: "shutdown")

    static let known = [broken, deleted, taken, expired, shutdown]
}

/// The answer to a lock request.
package enum LockAnswer: Sendable {
    case granted(Lease)
    /// Another has it, also at the end of the wait.
    case held
    case failed(InterlockError)
}

/// What became of a renewal.
package enum RenewAnswer: Sendable {
    /// For so many milliseconds it can be relied on.
    case renewed(validMilliseconds: Int64)
    /// The lock is not held by that token.
    case lost
    case failed(InterlockError)
}

/// What became of a release, or of a break.
package enum ReleaseAnswer: Sendable {
    case released
    /// The lock is not held by that token; of a break: there is no lease.
    case lost
    case failed(InterlockError)
}

/// What anybody may know of a lock.
public struct LockInformation: Hashable, Sendable {
    /// The lock's name.
    public var name: String
    /// The holder's label, or `foreign`; `nil`: nobody holds it.
    public var label: String?
    /// The last fence that was granted; `nil`: none within a day.
    public var fence: Int64?
    /// -1: without end; 0: nobody holds it.
    package var ttlMilliseconds: Int64
    /// How it is held; `nil`: nobody holds it.
    public var mode: LockMode?
    /// How many hold it.
    public var holders: Int
    /// Who holds it: of very many those whose leases end first. A place that is just being offered is nobody's.
    public var leases: [LeaseInformation]
    /// Callers that wait here, and other sidecars that do.
    public var waiters: Int
    /// The sidecars that callers wait in, in the order of their turns: of very many the first 100.
    public var queue: [WaitingSidecar]

    /// The time left of the lease, of several the longest; `nil`: nobody holds the lock, or it has no end (see `isEndless`).
    public var remaining: Duration? { ttlMilliseconds > 0 ? .milliseconds(ttlMilliseconds) : nil }
    /// The lock's key has no time to live: another program holds it until it deletes the key.
    public var isEndless: Bool { ttlMilliseconds < 0 }
}

/// A sidecar in which callers wait for a lock.
public struct WaitingSidecar: Hashable, Sendable {
    /// Its ID in the fleet.
    public var id: String
    /// How many callers wait in it, as it told last; `nil`: it has not told. Sidecars of 0.1.0 never do.
    public var waiters: Int?
}

/// What anybody may know of one lease of a lock; never the token.
public struct LeaseInformation: Hashable, Sendable {
    /// The holder's label, or `foreign`.
    public var label: String
    /// `nil`: it has none, as other programs' holds have.
    public var fence: Int64?
    /// -1: without end.
    package var ttlMilliseconds: Int64

    /// The time left of it; `nil`: it has no end.
    public var remaining: Duration? { ttlMilliseconds < 0 ? nil : .milliseconds(ttlMilliseconds) }
}

/// One step through the names of the locks that are held.
package struct LockPage: Hashable, Sendable {
    /// Hand it in for the next step; `0`: this was the last.
    package var cursor: String
    /// May name a lock twice, as any `SCAN` may.
    package var names: [String]
}

/// A request for several locks: all or none.
package struct JointLockRequest: Sendable {
    /// The most locks that one call acquires.
    package static let most = 32

    /// Each once. Leases are answered in this order.
    package var names: [ResourceName]
    /// What is asked for each of them; its name does not matter, its wait is for all together.
    package var template: LockRequest

    package init(names: [ResourceName], template: LockRequest) {
        self.names = names
        self.template = template
    }
}

/// The answer to a request for several locks.
package enum JointLockAnswer: Sendable {
    case granted([Lease])
    /// Another has one of them, also at the end of the wait; none is taken.
    case held
    case failed(InterlockError)
}

/// A lease whose loss is reported, and that may be extended until its holder is done.
///
/// Dropping this value and its stream stops following, and an extended lease then lapses. Keep the value for as long as
/// you need the lock.
public struct FollowedLease: Sendable {
    package let follower: LeaseFollower
    /// The loss, at most one, at the lease's own deadline at the latest. The stream ends without one when the lease is
    /// released or no longer followed, and when the task that reads it is cancelled.
    public var losses: AsyncStream<LeaseLoss>
    /// Held so that following ends when it is deallocated.
    let interest: LeaseInterest
    /// Ends the stream.
    let end: @Sendable () -> Void
}

/// An interest in a lease, which ends when this object is deallocated.
final class LeaseInterest: Sendable {
    private let onEnd: @Sendable () -> Void

    init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}

/// A followed lease ended.
package struct LeaseEnd: Sendable {
    package var follower: LeaseFollower
    package var name: String
    package var token: String
    /// `nil`: its holder released it.
    package var loss: LeaseLoss?
}

/// Names a followed lease; see `CoordinatorCalls.followLease`.
package struct LeaseFollower: Hashable, Comparable, Sendable {
    let id: UInt64

    /// In the order in which they began to follow.
    package static func < (left: Self, right: Self) -> Bool { left.id < right.id }
}

/// Why `Locks` could not do what was asked: held, lost and unreachable are never the same.
public struct LockError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on. Later versions may know more codes: a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private let name: String

        /// Another has the lock, and there was no wait.
        public static let held = Code(name: "held")
        /// Another had the lock until the wait was over.
        public static let timedOut = Code(name: "timedOut")
        /// The lease was lost while the body ran; `loss` says why.
        public static let lost = Code(name: "lost")
        /// Redis cannot be reached or cannot serve.
        public static let unavailable = Code(name: "unavailable")
        /// The request itself is wrong.
        public static let invalid = Code(name: "invalid")
        /// The task was cancelled.
        public static let cancelled = Code(name: "cancelled")

        /// The code's name.
        public var description: String { name }
    }

    /// What went wrong.
    public var code: Code
    /// Why the lease was lost; `nil` with every code but `lost`.
    public var loss: LeaseLoss?
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    package init(_ code: Code, _ message: String, loss: LeaseLoss? = nil) {
        self.code = code
        self.loss = loss
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

extension LockError {
    init(_ error: InterlockError) {
        let code: Code =
            switch error.code.known {
            case .invalid, .unknownService: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, error.message)
    }
}

extension Lease {
    /// The fence if the owner chose the token, which then comes back with every grant: with the fence, a late renewal
    /// or release cannot affect a later lease.
    var ownersFence: Int64? { isOwners ? fence : nil }

    /// When Redis was asked for it, which granted it; until then its caller waited.
    package var askedAt: Instant { LeaseValidity.sentAt(deadline: deadline, ttl: ttlMilliseconds) }
}

extension LockInformation {
    /// A lock that nobody holds or waits for.
    package init(unheld name: ResourceName) {
        self.init(
            name: name.text, label: nil, fence: nil, ttlMilliseconds: 0, mode: nil, holders: 0, leases: [], waiters: 0, queue: [])
    }
}

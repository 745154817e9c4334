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

    /// - Throws: `InterlockError` when the call failed.
    var isReleased: Bool {
        get throws(InterlockError) {
            switch self {
            case .released: true
            case .lost: false
            case .failed(let error): throw error
            }
        }
    }
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

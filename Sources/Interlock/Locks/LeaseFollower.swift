internal import InterlockCore

/// A follower of a lease; see `LoopBoundCoordinator.followLease`.
package struct LeaseFollower: Hashable, Comparable, Sendable {
    let id: UInt64

    /// Orders followers by the time at which they began to follow.
    package static func < (left: Self, right: Self) -> Bool { left.id < right.id }
}

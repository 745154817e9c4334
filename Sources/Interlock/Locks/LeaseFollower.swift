internal import InterlockCore

/// Names a followed lease; see `CoordinatorCalls.followLease`.
package struct LeaseFollower: Hashable, Comparable, Sendable {
    let id: UInt64

    /// In the order in which they began to follow.
    package static func < (left: Self, right: Self) -> Bool { left.id < right.id }
}

internal import InterlockCore

/// The ID of a followed lease; see `CoordinatorCalls.followLease`.
package struct LeaseFollower: Hashable, Comparable, Sendable {
    let id: UInt64

    /// Orders followers by when they began to follow.
    package static func < (left: Self, right: Self) -> Bool { left.id < right.id }
}

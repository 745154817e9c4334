internal import InterlockCore

/// A request for all of several locks, or none.
package struct JointLockRequest: Sendable {
    /// The maximum number of locks in one call.
    package static let maximumCount = 32

    /// The names, without duplicates. The leases are returned in this order.
    package var names: [ResourceName]
    /// The request for each lock. Its name is ignored, and its wait applies to all locks together.
    package var template: LockRequest

    package init(names: [ResourceName], template: LockRequest) {
        self.names = names
        self.template = template
    }
}

internal import InterlockCore

/// A request for all of several locks or none of them.
package struct JointLockRequest: Sendable {
    /// The maximum number of locks in one call.
    package static let maximumCount = 32

    /// The names, without duplicates. The leases are returned in this order.
    package var names: [ResourceName]
    /// The options of the request for each lock. The template's name is ignored, and its wait applies to all locks
    /// together.
    package var template: LockRequest

    package init(names: [ResourceName], template: LockRequest) {
        self.names = names
        self.template = template
    }
}

internal import InterlockCore

/// A request for several locks: all or none.
package struct JointLockRequest: Sendable {
    /// The most locks that one call acquires.
    package static let most = 32

    /// Each once. Leases are answered in this order.
    package var names: [ResourceName]
    /// The request for each lock. Its name is ignored, and its wait applies to all locks together.
    package var template: LockRequest

    package init(names: [ResourceName], template: LockRequest) {
        self.names = names
        self.template = template
    }
}

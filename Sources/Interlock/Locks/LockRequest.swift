internal import InterlockCore

/// A request for a lock.
package struct LockRequest: Sendable {
    package var name: ResourceName
    /// The lease's TTL in milliseconds.
    package var ttl: Int64
    /// The maximum wait, in milliseconds; 0 for none.
    package var wait: Int64
    /// The token that the owner chose. If the same owner asks again, it gets the same lease. `nil` for a new token.
    package var owner: String?
    /// The label that others see; `nil` for this host's name.
    package var label: String?
    /// Whether the lock is exclusive, shared or a semaphore.
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

internal import InterlockCore

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

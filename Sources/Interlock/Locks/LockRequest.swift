internal import InterlockCore

/// A request for a lock.
package struct LockRequest: Sendable {
    package var name: ResourceName
    /// The lease's TTL in milliseconds.
    package var ttlMilliseconds: Int64
    /// The maximum wait, in milliseconds; 0 to refuse the call instead of waiting.
    package var waitMilliseconds: Int64
    /// The token that the owner chose. If the same owner asks again, it gets the same lease. `nil` for a new token.
    package var owner: String?
    /// The label that others see; `nil` for this host's name.
    package var label: String?
    /// Whether the lock is exclusive, shared or a semaphore.
    package var mode: LockMode

    package init(
        name: ResourceName, ttlMilliseconds: Int64, waitMilliseconds: Int64 = 0, owner: String? = nil,
        label: String? = nil,
        mode: LockMode = .exclusive
    ) {
        self.name = name
        self.ttlMilliseconds = ttlMilliseconds
        self.waitMilliseconds = waitMilliseconds
        self.owner = owner
        self.label = label
        self.mode = mode
    }
}

/// A sidecar in which callers wait for a lock.
public struct WaitingSidecar: Hashable, Sendable {
    /// The sidecar's ID in the fleet.
    public var id: String
    /// The number of callers that wait in it, as it last reported; `nil`: it has not reported. Sidecars of 0.1.0 never
    /// do.
    public var waiters: Int?

    package init(id: String, waiters: Int?) {
        self.id = id
        self.waiters = waiters
    }
}

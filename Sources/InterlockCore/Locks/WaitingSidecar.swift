/// A sidecar in which callers wait for a lock.
public struct WaitingSidecar: Hashable, Sendable {
    /// The sidecar's ID in the fleet.
    public var id: String
    /// The number of callers waiting there, as last reported; `nil` if the sidecar has not reported, as with sidecars
    /// of 0.1.0.
    public var waiters: Int?

    package init(id: String, waiters: Int?) {
        self.id = id
        self.waiters = waiters
    }
}

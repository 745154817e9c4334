/// The public description of one lease of a lock. It never contains a token.
public struct LeaseInformation: Hashable, Sendable {
    /// The holder's label; `foreign` for other software, and for an owner whose label this sidecar does not know.
    public var label: String
    /// The lease's fence; `nil` for other software, whose leases have no fence.
    public var fence: Int64?
    /// The milliseconds left; -1 if the lease never ends.
    package var ttlMilliseconds: Int64

    package init(label: String, fence: Int64?, ttlMilliseconds: Int64) {
        self.label = label
        self.fence = fence
        self.ttlMilliseconds = ttlMilliseconds
    }

    /// The time left; `nil` if the lease never ends.
    public var remaining: Duration? { ttlMilliseconds < 0 ? nil : .milliseconds(ttlMilliseconds) }
}

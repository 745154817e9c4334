/// The public description of one lease of a lock. It never contains a token.
public struct LeaseInformation: Hashable, Sendable {
    /// The holder's label, or `foreign` for other software.
    public var label: String
    /// The lease's fence; `nil` if it has none, as with other software.
    public var fence: Int64?
    /// The milliseconds left; -1 if the lease has no end.
    package var ttlMilliseconds: Int64

    package init(label: String, fence: Int64?, ttlMilliseconds: Int64) {
        self.label = label
        self.fence = fence
        self.ttlMilliseconds = ttlMilliseconds
    }

    /// The time left; `nil` if the lease has no end.
    public var remaining: Duration? { ttlMilliseconds < 0 ? nil : .milliseconds(ttlMilliseconds) }
}

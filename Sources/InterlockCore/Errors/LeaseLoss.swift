/// The reason for the loss of a lease before its holder released it. Later versions may have more reasons: a `switch`
/// needs a `default`.
public struct LeaseLoss: RawRepresentable, Hashable, Sendable {
    /// The reason's name, as events and the RESP API spell it.
    public let rawValue: String

    /// Creates a reason from its name.
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// An operator broke the lock.
    public static let broken = LeaseLoss(rawValue: "broken")
    /// The lock's key was deleted.
    public static let deleted = LeaseLoss(rawValue: "deleted")
    /// Another token, or a later lease of the same owner, holds the lock.
    public static let taken = LeaseLoss(rawValue: "taken")
    /// The lease ended before it was renewed.
    public static let expired = LeaseLoss(rawValue: "expired")
    /// The coordinator is stopping. It has stopped renewing and watching the lease, which lapses at its end.
    public static let shutdown = LeaseLoss(rawValue: "shutdown")
    /// The connection to the sidecar was lost, or the sidecar closed it because the lease was lost. The lease is no
    /// longer renewed.
    public static let disconnected = LeaseLoss(rawValue: "disconnected")

    /// The reasons that a coordinator reports.
    package static let known = [broken, deleted, taken, expired, shutdown]
}

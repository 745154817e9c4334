/// Something happened to a lock that its holder did not do. Grants and releases are not told.
public struct LockEvent: Hashable, Sendable {
    public enum Kind: String, CaseIterable, Sendable {
        /// An operator took it from its holder.
        case broken = "lock.broken"
    }

    public var kind: Kind
    /// The lock's name.
    public var lock: String
    /// Who did it: an API key's name; empty: nobody said.
    public var by: String

    public init(kind: Kind, lock: String, by: String) {
        self.kind = kind
        self.lock = lock
        self.by = by
    }
}

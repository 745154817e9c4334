/// A change of a lock that its holder did not make. Grants and releases are no events.
public struct LockEvent: Hashable, Sendable {
    /// The kind of change.
    public enum Kind: String, CaseIterable, Sendable {
        /// An operator took it from its holder.
        case broken = "lock.broken"
    }

    /// The kind of event.
    public var kind: Kind
    /// The lock's name.
    public var lock: String
    /// The name of the API key that did it; empty: unknown.
    public var by: String

    package init(kind: Kind, lock: String, by: String) {
        self.kind = kind
        self.lock = lock
        self.by = by
    }
}

/// A change of a lock by someone other than its holder. Grants and releases are not events.
public struct LockEvent: Hashable, Sendable {
    /// The kind of change.
    public enum Kind: String, CaseIterable, Sendable {
        /// An operator broke the lock.
        case broken = "lock.broken"
    }

    /// The kind of event.
    public var kind: Kind
    /// The lock's name.
    public var lock: String
    /// The name of the operator's API key; empty if unknown.
    public var brokenBy: String

    package init(kind: Kind, lock: String, brokenBy: String) {
        self.kind = kind
        self.lock = lock
        self.brokenBy = brokenBy
    }
}

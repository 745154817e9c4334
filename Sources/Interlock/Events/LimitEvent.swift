/// Something about a limit that people want to know of. Each is told at most once per window of the limit and sidecar,
/// whatever the number of calls and subjects.
public struct LimitEvent: Hashable, Sendable {
    public enum Kind: String, CaseIterable, Sendable {
        /// Four fifths of the window were granted.
        case near = "limit.near"
        /// A call was refused.
        case reached = "limit.reached"
        /// A shadow limit would have refused a call.
        case shadow = "limit.shadow"
    }

    public var kind: Kind
    public var service: String
    /// The limit's name.
    public var limit: String
    /// Whose count it is, of a limit per subject.
    public var subject: String?
    /// What was counted when it happened.
    public var used: Int64
    /// The limit's capacity.
    public var capacity: Int64

    public init(kind: Kind, service: String, limit: String, subject: String?, used: Int64, capacity: Int64) {
        self.kind = kind
        self.service = service
        self.limit = limit
        self.subject = subject
        self.used = used
        self.capacity = capacity
    }
}

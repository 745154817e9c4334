/// A limit that needs attention. Each sidecar publishes each kind at most once per window of the limit, whatever the
/// number of calls and subjects.
public struct LimitEvent: Hashable, Sendable {
    /// The kind of limit event.
    public enum Kind: String, CaseIterable, Sendable {
        /// Usage reached four fifths of the capacity.
        case near = "limit.near"
        /// A call was refused.
        case reached = "limit.reached"
        /// A shadow limit would have refused a call.
        case shadow = "limit.shadow"
    }

    /// The kind of event.
    public var kind: Kind
    /// The service's name.
    public var service: String
    /// The limit's name.
    public var limitName: String
    /// The subject whose usage the event reports; `nil` for a limit of the whole service.
    public var subject: String?
    /// The usage at the time of the event.
    public var used: Int64
    /// The total that the limit allows in its window.
    public var limit: Int64

    package init(kind: Kind, service: String, limitName: String, subject: String?, used: Int64, limit: Int64) {
        self.kind = kind
        self.service = service
        self.limitName = limitName
        self.subject = subject
        self.used = used
        self.limit = limit
    }
}

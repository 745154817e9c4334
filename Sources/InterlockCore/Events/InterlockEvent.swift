public import FoundationEssentials

/// An event of the fleet. It has the members of its payload: `event.service`.
@dynamicMemberLookup
public struct InterlockEvent<Payload: Sendable>: Sendable {
    /// The ID of the sidecar that caused it.
    public var origin: String
    /// The Redis database of the fleet: pub/sub does not keep databases apart.
    public var database: Int
    package var atMilliseconds: Int64
    /// The details of the event.
    public var payload: Payload

    package init(origin: String, database: Int, atMilliseconds: Int64, payload: Payload) {
        self.origin = origin
        self.database = database
        self.atMilliseconds = atMilliseconds
        self.payload = payload
    }

    /// The time of the event, by Redis' clock; by the host's clock if Redis was unreachable.
    public var date: Date { Date(epochMilliseconds: atMilliseconds) }

    /// A member of the payload.
    public subscript<Value>(dynamicMember member: KeyPath<Payload, Value>) -> Value { payload[keyPath: member] }

    /// Returns the same event with a part of its payload; `nil`: it has no such part.
    func narrowed<Part>(_ part: (Payload) -> Part?) -> InterlockEvent<Part>? {
        part(payload).map {
            InterlockEvent<Part>(origin: origin, database: database, atMilliseconds: atMilliseconds, payload: $0)
        }
    }
}

extension InterlockEvent: Equatable where Payload: Equatable {}
extension InterlockEvent: Hashable where Payload: Hashable {}

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

/// A limit that needs attention. A sidecar publishes each kind at most once per window of the limit, whatever the number
/// of calls and subjects.
public struct LimitEvent: Hashable, Sendable {
    /// The kind of attention.
    public enum Kind: String, CaseIterable, Sendable {
        /// Four fifths of the window were granted.
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
    public var limit: String
    /// The subject of the count, for a limit per subject.
    public var subject: String?
    /// The count at the time of the event.
    public var used: Int64
    /// The limit's capacity.
    public var capacity: Int64

    package init(kind: Kind, service: String, limit: String, subject: String?, used: Int64, capacity: Int64) {
        self.kind = kind
        self.service = service
        self.limit = limit
        self.subject = subject
        self.used = used
        self.capacity = capacity
    }
}

/// A change of a breaker.
public struct BreakerEvent: Hashable, Sendable {
    /// The `type` of such an event in JSON.
    package static let type = "breaker"

    /// The service's name.
    public var service: String
    /// The breaker after the change.
    public var breaker: BreakerSnapshot

    package init(service: String, breaker: BreakerSnapshot) {
        self.service = service
        self.breaker = breaker
    }
}

/// A sidecar that joined or left the fleet. The fleet drops a sidecar that dies without an event.
public struct FleetEvent: Hashable, Sendable {
    /// Whether the sidecar joined or left.
    public enum Kind: String, CaseIterable, Sendable {
        /// It started.
        case joined = "fleet.joined"
        /// It was shut down.
        case left = "fleet.left"
    }

    /// The kind of event.
    public var kind: Kind
    /// The sidecar's ID.
    public var sidecar: String

    package init(kind: Kind, sidecar: String) {
        self.kind = kind
        self.sidecar = sidecar
    }
}

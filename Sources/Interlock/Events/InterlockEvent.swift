public import FoundationEssentials
public import InterlockCore

/// Something that happened in the fleet. The payload's members can be had of the event itself: `event.service`.
@dynamicMemberLookup
public struct InterlockEvent<Payload: Sendable>: Sendable {
    /// The ID of the sidecar that made it happen.
    public var origin: String
    /// The Redis database it happened in: pub/sub does not keep them apart.
    public var database: Int
    /// When, in milliseconds of the Unix epoch by Redis' clock; by its host's for what a sidecar tells while Redis is away.
    package var atMilliseconds: Int64
    /// What happened.
    public var payload: Payload

    /// An event as a sidecar tells it; `atMilliseconds` is of the Unix epoch.
    public init(origin: String, database: Int, atMilliseconds: Int64, payload: Payload) {
        self.origin = origin
        self.database = database
        self.atMilliseconds = atMilliseconds
        self.payload = payload
    }

    /// The time of the event, by Redis' clock; by the host's clock if Redis was unreachable.
    public var date: Date { Date(epochMilliseconds: atMilliseconds) }

    /// A member of the payload.
    public subscript<Value>(dynamicMember member: KeyPath<Payload, Value>) -> Value { payload[keyPath: member] }

    /// The same event with a part of its payload; `nil`: it has no such part.
    func narrowed<Part>(_ part: (Payload) -> Part?) -> InterlockEvent<Part>? {
        part(payload).map {
            InterlockEvent<Part>(origin: origin, database: database, atMilliseconds: atMilliseconds, payload: $0)
        }
    }
}

extension InterlockEvent: Equatable where Payload: Equatable {}
extension InterlockEvent: Hashable where Payload: Hashable {}

extension InterlockEvent<EventPayload> {
    /// Reads a message of the event channel.
    ///
    /// Unknown fields are ignored and unknown types are passed over, so that two versions can share a fleet.
    /// - Returns: `nil` when it is of an unknown version or type, lacks what its type has, or is no JSON.
    public init?(json: [UInt8]) {
        guard let event = ReceivedEvent(json)?.event else { return nil }
        self = event
    }
}

/// Something happened to a lock that its holder did not do. Grants and releases are not told.
public struct LockEvent: Hashable, Sendable {
    /// What happened to a lock.
    public enum Kind: String, CaseIterable, Sendable {
        /// An operator took it from its holder.
        case broken = "lock.broken"
    }

    /// What happened.
    public var kind: Kind
    /// The lock's name.
    public var lock: String
    /// Who did it: an API key's name; empty: nobody said.
    public var by: String

    /// An event of a lock.
    public init(kind: Kind, lock: String, by: String) {
        self.kind = kind
        self.lock = lock
        self.by = by
    }
}

extension LockEvent {
    /// The message that tells of a broken lock; Redis' time stands between its two parts.
    static func broken(_ lock: String, by: String, origin: String, database: Int) -> (start: String, end: String) {
        let start =
            #"{"v":1,"type":"\#(Kind.broken.rawValue)","origin":\#(JSONText.quoted(origin)),"db":\#(database),"#
            + #""lock":\#(JSONText.quoted(lock)),"by":\#(JSONText.quoted(by)),"at_ms":"#
        return (start, "}")
    }
}

/// Something about a limit that people want to know of. Each is told at most once per window of the limit and sidecar,
/// whatever the number of calls and subjects.
public struct LimitEvent: Hashable, Sendable {
    /// What there is to tell of a limit.
    public enum Kind: String, CaseIterable, Sendable {
        /// Four fifths of the window were granted.
        case near = "limit.near"
        /// A call was refused.
        case reached = "limit.reached"
        /// A shadow limit would have refused a call.
        case shadow = "limit.shadow"
    }

    /// What happened.
    public var kind: Kind
    /// The service's name.
    public var service: String
    /// The limit's name.
    public var limit: String
    /// Whose count it is, of a limit per subject.
    public var subject: String?
    /// What was counted when it happened.
    public var used: Int64
    /// The limit's capacity.
    public var capacity: Int64

    /// An event of a limit.
    public init(kind: Kind, service: String, limit: String, subject: String?, used: Int64, capacity: Int64) {
        self.kind = kind
        self.service = service
        self.limit = limit
        self.subject = subject
        self.used = used
        self.capacity = capacity
    }
}

extension LimitEvent {
    /// The event's JSON up to the value of `at_ms`, which is its last field.
    func json(origin: String, database: Int) -> String {
        var fields = [
            #""v":1"#, #""type":"\#(kind.rawValue)""#, #""origin":"# + JSONText.quoted(origin), #""db":\#(database)"#,
            #""service":"# + JSONText.quoted(service), #""limit":"# + JSONText.quoted(limit),
        ]
        if let subject { fields.append(#""subject":"# + JSONText.quoted(subject)) }
        fields += [#""used":\#(used)"#, #""capacity":\#(capacity)"#, #""at_ms":"#]
        return "{" + fields.joined(separator: ",")
    }
}

/// A breaker changed.
public struct BreakerEvent: Hashable, Sendable {
    /// The `type` of such an event in JSON.
    public static let type = "breaker"

    /// The service's name.
    public var service: String
    /// What it changed to.
    public var breaker: BreakerSnapshot

    /// An event of a breaker.
    public init(service: String, breaker: BreakerSnapshot) {
        self.service = service
        self.breaker = breaker
    }
}

/// A sidecar came or went. One that dies is not told of: it is off the list when its time is up.
public struct FleetEvent: Hashable, Sendable {
    /// Whether a sidecar came or went.
    public enum Kind: String, CaseIterable, Sendable {
        /// It started.
        case joined = "fleet.joined"
        /// It was shut down.
        case left = "fleet.left"
    }

    /// What happened.
    public var kind: Kind
    /// The sidecar's ID.
    public var sidecar: String

    /// An event of the fleet.
    public init(kind: Kind, sidecar: String) {
        self.kind = kind
        self.sidecar = sidecar
    }
}

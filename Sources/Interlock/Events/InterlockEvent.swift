internal import FoundationEssentials

/// Something that happened in the fleet. The payload's members can be had of the event itself: `event.service`.
@dynamicMemberLookup
public struct InterlockEvent<Payload: Sendable>: Sendable {
    /// The ID of the sidecar that made it happen.
    public var origin: String
    /// The Redis database it happened in: pub/sub does not keep them apart.
    public var database: Int
    /// When, in milliseconds of the Unix epoch by Redis' clock; by its host's for what a sidecar tells while Redis is away.
    public var atMilliseconds: Int64
    public var payload: Payload

    public init(origin: String, database: Int, atMilliseconds: Int64, payload: Payload) {
        self.origin = origin
        self.database = database
        self.atMilliseconds = atMilliseconds
        self.payload = payload
    }

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

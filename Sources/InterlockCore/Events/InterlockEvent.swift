public import FoundationEssentials

/// An event of the fleet. It has the members of its payload, as in `event.service`.
@dynamicMemberLookup
public struct InterlockEvent<Payload: Sendable>: Sendable {
    /// The ID of the sidecar that caused it.
    public var origin: String
    /// The fleet's Redis database. It is part of the event because pub/sub does not separate databases.
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

    /// The time of the event, by the Redis clock, or by the host's clock if Redis was unreachable.
    public var date: Date { Date(epochMilliseconds: atMilliseconds) }

    /// A member of the payload.
    public subscript<Value>(dynamicMember member: KeyPath<Payload, Value>) -> Value { payload[keyPath: member] }

    /// Returns the same event with a part of its payload; `nil` if it has no such part.
    func compactMapPayload<Part>(_ part: (Payload) -> Part?) -> InterlockEvent<Part>? {
        part(payload).map {
            InterlockEvent<Part>(origin: origin, database: database, atMilliseconds: atMilliseconds, payload: $0)
        }
    }
}

extension InterlockEvent: Equatable where Payload: Equatable {}
extension InterlockEvent: Hashable where Payload: Hashable {}

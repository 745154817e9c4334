public import FoundationEssentials

/// An event of the fleet, with the members of its payload as its own, as in `event.service`.
@dynamicMemberLookup
public struct InterlockEvent<Payload: Sendable>: Sendable {
    /// The ID of the sidecar that caused the event.
    public var origin: String
    /// The fleet's Redis database. It is part of the event because pub/sub does not separate databases.
    public var database: Int
    /// The time of the event, as Unix time in milliseconds; see `date`.
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

    /// Returns the same event with the payload that `transform` returns; `nil` if `transform` returns `nil`.
    func compactMapPayload<Other>(_ transform: (Payload) -> Other?) -> InterlockEvent<Other>? {
        transform(payload).map {
            InterlockEvent<Other>(origin: origin, database: database, atMilliseconds: atMilliseconds, payload: $0)
        }
    }
}

extension InterlockEvent: Equatable where Payload: Equatable {}
extension InterlockEvent: Hashable where Payload: Hashable {}

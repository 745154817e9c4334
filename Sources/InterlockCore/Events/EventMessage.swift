internal import FoundationEssentials

/// An event as it was published: one JSON object on one line, version 1.
public struct EventMessage: Hashable, Sendable {
    /// The object's `type`: up to 64 lower-case letters, digits, dots, dashes and underscores.
    public let type: String
    /// The object, on one line.
    public let json: String

    /// The maximum length of a message in bytes; a longer message is ignored.
    static let maximumBytes = 64 << 10

    package init(type: String, json: String) {
        self.type = type
        self.json = json
    }

    /// Returns whether `name` can be a type. Types are printed in line-based output, so they must not contain line
    /// breaks.
    static func isType(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: ".-_".utf8.contains(byte)
                }
            }
    }
}

/// An event as decoded from JSON: the fields of all events, then those of its type. Unknown fields are ignored.
struct DecodedEvent: Decodable {
    var type: String
    var database: Int
    /// The event; `nil` if its type is unknown.
    var event: InterlockEvent<EventPayload>?

    private static let version = 1

    private enum Field: String, CodingKey {
        case v, type, origin, db, at_ms
        case service, state, cause, since_ms, until_ms, generation, trips, failure_rate, slow_rate, calls, by, forced
        case forced_until_ms, reason, streak
        case lock
        case limit, subject, used, capacity
    }

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: Field.self)
        guard try fields.decode(Int.self, forKey: .v) == Self.version else {
            throw DecodingError.dataCorruptedError(forKey: .v, in: fields, debugDescription: "unsupported version")
        }
        type = try fields.decode(String.self, forKey: .type)
        guard EventMessage.isType(type) else {
            throw DecodingError.dataCorruptedError(forKey: .type, in: fields, debugDescription: "invalid type name")
        }
        database = try fields.decode(Int.self, forKey: .db)
        let origin = try fields.decode(String.self, forKey: .origin)
        let atMilliseconds = try fields.decode(Int64.self, forKey: .at_ms)
        event = try Self.payload(ofType: type, origin: origin, fields).map {
            InterlockEvent(origin: origin, database: database, atMilliseconds: atMilliseconds, payload: $0)
        }
    }

    private static func payload(
        ofType type: String, origin: String, _ fields: KeyedDecodingContainer<Field>
    ) throws -> EventPayload? {
        if type == BreakerEvent.type {
            return .breaker(
                BreakerEvent(service: try fields.decode(String.self, forKey: .service), breaker: try snapshot(fields)))
        }
        if let kind = LockEvent.Kind(rawValue: type) {
            return .lock(
                LockEvent(
                    kind: kind, lock: try fields.decode(String.self, forKey: .lock),
                    brokenBy: try fields.decodeIfPresent(String.self, forKey: .by) ?? ""))
        }
        if let kind = LimitEvent.Kind(rawValue: type) {
            return .limit(
                LimitEvent(
                    kind: kind, service: try fields.decode(String.self, forKey: .service),
                    limitName: try fields.decode(String.self, forKey: .limit),
                    subject: try fields.decodeIfPresent(String.self, forKey: .subject),
                    used: try fields.decode(Int64.self, forKey: .used),
                    limit: try fields.decode(Int64.self, forKey: .capacity)))
        }
        return FleetEvent.Kind(rawValue: type).map { .fleet(FleetEvent(kind: $0, sidecar: origin)) }
    }

    private static func snapshot(_ fields: KeyedDecodingContainer<Field>) throws -> BreakerSnapshot {
        guard let state = BreakerSnapshot.State(rawValue: try fields.decode(String.self, forKey: .state)) else {
            throw DecodingError.dataCorruptedError(
                forKey: .state, in: fields, debugDescription: "unknown breaker state")
        }
        func value<Value: Decodable>(_ name: String) throws -> Value? {
            try Field(rawValue: name).flatMap { try fields.decodeIfPresent(Value.self, forKey: $0) }
        }
        _ = try fields.decode(Int64.self, forKey: .generation)
        return try BreakerSnapshot(
            state: state, text: { try value($0) }, number: { try value($0) }, rate: { try value($0) })
    }
}

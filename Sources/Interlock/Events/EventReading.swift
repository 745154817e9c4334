internal import InterlockCore

/// How an event is read from its JSON: what all have, then what its type has. Unknown fields are ignored.
struct EventReading: Decodable {
    var type: String
    var database: Int
    /// `nil`: the type is not known here.
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
            throw DecodingError.dataCorruptedError(forKey: .v, in: fields, debugDescription: "another version")
        }
        type = try fields.decode(String.self, forKey: .type)
        guard EventMessage.isType(type) else {
            throw DecodingError.dataCorruptedError(forKey: .type, in: fields, debugDescription: "not the name of a type")
        }
        database = try fields.decode(Int.self, forKey: .db)
        let origin = try fields.decode(String.self, forKey: .origin)
        let at = try fields.decode(Int64.self, forKey: .at_ms)
        event = try Self.payload(ofType: type, origin: origin, fields).map {
            InterlockEvent(origin: origin, database: database, atMilliseconds: at, payload: $0)
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
                    by: try fields.decodeIfPresent(String.self, forKey: .by) ?? ""))
        }
        if let kind = LimitEvent.Kind(rawValue: type) {
            return .limit(
                LimitEvent(
                    kind: kind, service: try fields.decode(String.self, forKey: .service),
                    limit: try fields.decode(String.self, forKey: .limit),
                    subject: try fields.decodeIfPresent(String.self, forKey: .subject),
                    used: try fields.decode(Int64.self, forKey: .used),
                    capacity: try fields.decode(Int64.self, forKey: .capacity)))
        }
        return FleetEvent.Kind(rawValue: type).map { .fleet(FleetEvent(kind: $0, sidecar: origin)) }
    }

    private static func snapshot(_ fields: KeyedDecodingContainer<Field>) throws -> BreakerSnapshot {
        guard let state = BreakerSnapshot.State(rawValue: try fields.decode(String.self, forKey: .state)) else {
            throw DecodingError.dataCorruptedError(forKey: .state, in: fields, debugDescription: "not a breaker's state")
        }
        func number(_ field: Field) throws -> Int64 { try fields.decodeIfPresent(Int64.self, forKey: field) ?? 0 }
        func share(_ field: Field) throws -> Double { try fields.decodeIfPresent(Double.self, forKey: field) ?? 0 }
        func text(_ field: Field) throws -> String { try fields.decodeIfPresent(String.self, forKey: field) ?? "" }
        return BreakerSnapshot(
            state: state, cause: try text(.cause), sinceMilliseconds: try number(.since_ms),
            untilMilliseconds: try number(.until_ms), generation: try fields.decode(Int64.self, forKey: .generation),
            trips: try number(.trips), failureRate: try share(.failure_rate), slowRate: try share(.slow_rate),
            calls: try number(.calls), by: try text(.by), forced: BreakerSnapshot.Forced(rawValue: try text(.forced)),
            forcedUntilMilliseconds: try number(.forced_until_ms), reason: try text(.reason), streak: try number(.streak))
    }
}

internal import FoundationEssentials
public import InterlockCore

/// Something that happened in the fleet, as it is published on the event channel: one JSON object, version 1.
///
/// Unknown fields are ignored and unknown types are passed over, so that two versions can share a fleet.
public struct InterlockEvent: Sendable {
    public enum Payload: Sendable {
        /// A breaker changed its state.
        case breaker(service: String, BreakerSnapshot)
        /// An operator took a lock from its holder.
        case lockBroken(name: String, by: String)
        case sidecarJoined
        case sidecarLeft
    }

    /// The sidecar that made it happen.
    public var origin: String
    /// The Redis database it happened in: pub/sub does not keep them apart.
    public var database: Int
    /// When, in milliseconds of the Unix epoch by Redis' clock.
    public var atMilliseconds: Int64
    public var payload: Payload

    /// Reads a message; `nil` when it is of an unknown version or type, or no JSON.
    public init?(json: [UInt8]) {
        guard let message = try? JSONDecoder().decode(Message.self, from: Data(json)), message.v == 1 else { return nil }
        origin = message.origin
        database = message.db
        atMilliseconds = message.at_ms
        switch message.type {
        case "breaker":
            guard let service = message.service, let state = message.state.flatMap(BreakerSnapshot.State.init),
                let generation = message.generation
            else { return nil }
            payload = .breaker(
                service: service,
                BreakerSnapshot(
                    state: state, cause: message.cause ?? "", sinceMilliseconds: message.since_ms ?? 0,
                    untilMilliseconds: message.until_ms ?? 0, generation: generation, trips: message.trips ?? 0,
                    failureRate: message.failure_rate ?? 0, slowRate: message.slow_rate ?? 0, calls: message.calls ?? 0,
                    by: message.by ?? "", forced: message.forced.flatMap(BreakerSnapshot.Forced.init)))
        case "lock.broken":
            guard let lock = message.lock else { return nil }
            payload = .lockBroken(name: lock, by: message.by ?? "")
        case "fleet.joined": payload = .sidecarJoined
        case "fleet.left": payload = .sidecarLeft
        default: return nil
        }
    }

    /// The fields as they stand in the message.
    private struct Message: Decodable {
        var v: Int
        var type: String
        var origin: String
        var db: Int
        var at_ms: Int64
        var service: String?
        var state: String?
        var cause: String?
        var since_ms: Int64?
        var until_ms: Int64?
        var generation: Int64?
        var trips: Int64?
        var failure_rate: Double?
        var slow_rate: Double?
        var calls: Int64?
        var by: String?
        var forced: String?
        var lock: String?
    }
}

internal import DequeModule
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// The last events that reached this sidecar, and the last changes of each breaker. Kept only in memory. Confined to
/// the coordinator's event loop.
final class EventHistory {
    /// A change of a breaker.
    struct Change {
        var origin: String
        var atMilliseconds: Int64
        var breaker: BreakerSnapshot
    }

    /// The number of events kept.
    static let capacity = 100
    /// The maximum number of changes kept for each breaker.
    static let maximumChanges = 20
    /// The maximum size of an event in bytes, both as published and as stored. Longer events are not stored.
    private static let maximumEventBytes = 8 << 10
    /// The maximum nesting depth of an event's JSON.
    private static let maximumDepth = 16

    /// The number of the newest event; 0 before the first event.
    private(set) var lastNumber: Int64 = 0
    /// The events as JSON, newest first, each with its source.
    private var events: Deque<(json: ByteBuffer, source: String)> = []
    /// The number of stored events by source.
    private var counts: [String: Int] = [:]
    private var breakers: [String: Deque<Change>] = [:]

    /// Records an event, and the change of a breaker that it describes.
    func record(
        _ message: EventMessage, _ event: InterlockEvent<EventPayload>?, isConfigured: (_ service: String) -> Bool
    ) {
        let addedFields: [String: JSONValue] = [
            "number": .integer(lastNumber + 1), "what": .string(event?.sentence ?? ""),
        ]
        if let json = Self.encoded(message.json, addedFields) {
            lastNumber += 1
            let source = Self.source(event?.payload)
            events.prepend((json, source))
            counts[source, default: 0] += 1
            if events.count > Self.capacity { dropOldest() }
        }
        guard case .breaker(let change) = event?.payload, let event, isConfigured(change.service) else { return }
        var changes = breakers[change.service] ?? []
        changes.prepend(Change(origin: event.origin, atMilliseconds: event.atMilliseconds, breaker: change.breaker))
        if changes.count > Self.maximumChanges { changes.removeLast() }
        breakers[change.service] = changes
    }

    /// Returns the source of an event. Events of the source with the most events are dropped first, so that a limit
    /// that is reached every second displaces its own events, not one about a broken lock. O(1).
    private static func source(_ payload: EventPayload?) -> String {
        switch payload {
        case .limit(let event): "limit \(event.service) \(event.limitName)"
        case .breaker(let change): "breaker \(change.service)"
        case .lock: "lock"
        case .fleet: "fleet"
        case nil: ""
        }
    }

    /// Drops the oldest event among those of the sources with the most events. O(capacity).
    private func dropOldest() {
        let highestCount = counts.values.max() ?? 0
        guard let index = events.lastIndex(where: { counts[$0.source] == highestCount }) else { return }
        let source = events.remove(at: index).source
        counts[source] = highestCount > 1 ? highestCount - 1 : nil
    }

    /// Drops the changes of services that are no longer configured.
    /// - Parameter isUnconfigured: whether a service is no longer configured.
    func removeAll(where isUnconfigured: (_ service: String) -> Bool) {
        for service in Array(breakers.keys) where isUnconfigured(service) { breakers[service] = nil }
    }

    /// Returns the changes of a breaker, newest first.
    func changes(ofService service: String) -> [Change] { Array(breakers[service] ?? []) }

    /// Writes the events, newest first.
    func write(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("{\"events\":[")
        for (index, event) in events.enumerated() {
            if index > 0 { buffer.writeStaticString(",") }
            buffer.writeImmutableBuffer(event.json)
        }
        buffer.writeString("],\"last\":\(lastNumber)}")
    }

    /// Parses a published event, and encodes it again with `addedFields` as its member `words`. The caller has decoded
    /// only the fields of the event's type, so the rest is validated here: malformed JSON would corrupt the response.
    /// Returns `nil` if the event is not JSON, nested too deeply or too long.
    private static func encoded(_ publishedJSON: String, _ addedFields: [String: JSONValue]) -> ByteBuffer? {
        guard publishedJSON.utf8.count <= maximumEventBytes,
            let event = try? JSONValue(reading: publishedJSON.utf8, maximumDepth: maximumDepth)
        else {
            return nil
        }
        var json = ByteBuffer()
        event.adding("words", .object(addedFields)).write(into: &json)
        return json.readableBytes <= maximumEventBytes ? json : nil
    }
}

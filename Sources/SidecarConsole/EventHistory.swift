internal import DequeModule
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// The last events that this sidecar received, and the last changes of each breaker. Kept in memory only; confined to
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
    /// The number of changes kept for each breaker.
    static let changes = 20
    /// The maximum size of an event in bytes, both as published and as written here. Longer events are not kept.
    private static let longest = 8 << 10
    /// The deepest nesting of an event's JSON that is accepted.
    private static let deepest = 16

    /// The number of the newest event; 0 if there is none.
    private(set) var last: Int64 = 0
    /// The events as JSON, newest first, each with its source.
    private var events: Deque<(json: ByteBuffer, source: String)> = []
    /// The number of kept events by source.
    private var counts: [String: Int] = [:]
    private var breakers: [String: Deque<Change>] = [:]

    func received(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?, isConfigured: (_ service: String) -> Bool) {
        let words: [String: JSONValue] = ["number": .integer(last + 1), "what": .text(event?.sentence ?? "")]
        if let json = Self.written(message.json, words) {
            last += 1
            let source = Self.source(event?.payload)
            events.prepend((json, source))
            counts[source, default: 0] += 1
            if events.count > Self.capacity { drop() }
        }
        guard case .breaker(let change) = event?.payload, let event, isConfigured(change.service) else { return }
        var changes = breakers[change.service] ?? []
        changes.prepend(Change(origin: event.origin, atMilliseconds: event.atMilliseconds, breaker: change.breaker))
        if changes.count > Self.changes { changes.removeLast() }
        breakers[change.service] = changes
    }

    /// Returns the source of an event. The source with the most events makes room first, so a limit that is reached
    /// every second displaces its own events, not the news that a lock was broken. O(1).
    private static func source(_ payload: EventPayload?) -> String {
        switch payload {
        case .limit(let event): "limit \(event.service) \(event.limit)"
        case .breaker(let change): "breaker \(change.service)"
        case .lock: "lock"
        case .fleet: "fleet"
        case nil: ""
        }
    }

    /// Drops the oldest event of the sources with the most events. O(capacity).
    private func drop() {
        let most = counts.values.max() ?? 0
        guard let place = events.lastIndex(where: { counts[$0.source] == most }) else { return }
        let source = events.remove(at: place).source
        counts[source] = most > 1 ? most - 1 : nil
    }

    /// Drops the changes of services that are no longer configured.
    func keep(_ isConfigured: (_ service: String) -> Bool) {
        for service in Array(breakers.keys) where !isConfigured(service) { breakers[service] = nil }
    }

    /// Returns the changes of a breaker, newest first.
    func changes(ofService service: String) -> [Change] { Array(breakers[service] ?? []) }

    /// Writes the events, newest first.
    func write(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("{\"events\":[")
        for (place, event) in events.enumerated() {
            if place > 0 { buffer.writeStaticString(",") }
            buffer.writeImmutableBuffer(event.json)
        }
        buffer.writeString("],\"last\":\(last)}")
    }

    /// Returns the published text, rewritten as JSON with `words` added. It was decoded only as far as its type's
    /// fields, so the rest may be malformed and would corrupt the events around it. `nil` if the text is not JSON,
    /// nested too deep or too long.
    private static func written(_ published: String, _ words: [String: JSONValue]) -> ByteBuffer? {
        guard published.utf8.count <= longest, let event = try? JSONValue(reading: published.utf8, deepest: deepest) else {
            return nil
        }
        var json = ByteBuffer()
        event.adding("words", .object(words)).write(into: &json)
        return json.readableBytes <= longest ? json : nil
    }
}

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
    /// The maximum size of an event in bytes, both as published and as stored. Longer events are not stored.
    private static let maximumEventBytes = 8 << 10
    /// The maximum nesting depth of an event's JSON.
    private static let maximumDepth = 16

    /// The number of the newest event; 0 if there is none.
    private(set) var last: Int64 = 0
    /// The events as JSON, newest first, each with its source.
    private var events: Deque<(json: ByteBuffer, source: String)> = []
    /// The number of kept events by source.
    private var counts: [String: Int] = [:]
    private var breakers: [String: Deque<Change>] = [:]

    func received(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?, isConfigured: (_ service: String) -> Bool) {
        let words: [String: JSONValue] = ["number": .integer(last + 1), "what": .string(event?.sentence ?? "")]
        if let json = Self.encoded(message.json, words) {
            last += 1
            let source = Self.source(event?.payload)
            events.prepend((json, source))
            counts[source, default: 0] += 1
            if events.count > Self.capacity { dropOldest() }
        }
        guard case .breaker(let change) = event?.payload, let event, isConfigured(change.service) else { return }
        var changes = breakers[change.service] ?? []
        changes.prepend(Change(origin: event.origin, atMilliseconds: event.atMilliseconds, breaker: change.breaker))
        if changes.count > Self.changes { changes.removeLast() }
        breakers[change.service] = changes
    }

    /// Returns the source of an event. Events of the source with the most events are dropped first, so a limit that is
    /// reached every second displaces its own events and not one about a broken lock. O(1).
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
    /// - Parameter isConfigured: whether a service is configured.
    func keep(_ isConfigured: (_ service: String) -> Bool) {
        for service in Array(breakers.keys) where !isConfigured(service) { breakers[service] = nil }
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
        buffer.writeString("],\"last\":\(last)}")
    }

    /// Returns the published text, parsed and encoded again with `words` added. Until now only the fields of its type
    /// were decoded, so the rest may be malformed and would corrupt the response. Returns `nil` if the text is not
    /// JSON, nested too deeply or too long.
    private static func encoded(_ published: String, _ words: [String: JSONValue]) -> ByteBuffer? {
        guard published.utf8.count <= maximumEventBytes,
            let event = try? JSONValue(reading: published.utf8, maximumDepth: maximumDepth)
        else {
            return nil
        }
        var json = ByteBuffer()
        event.adding("words", .object(words)).write(into: &json)
        return json.readableBytes <= maximumEventBytes ? json : nil
    }
}

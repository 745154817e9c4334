internal import DequeModule
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// The last events that this sidecar has heard, and what each breaker has been through. In its memory alone; confined to the
/// coordinator's event loop.
final class EventHistory {
    /// A change of a breaker.
    struct Change {
        var origin: String
        var atMilliseconds: Int64
        var breaker: BreakerSnapshot
    }

    /// So many events are remembered.
    static let capacity = 100
    /// So many changes of each breaker.
    static let changes = 20
    /// In bytes, as it was published and as it is written here: what is longer is told to those who follow, and not remembered.
    private static let longest = 8 << 10
    /// So deep may what it has beyond its type's members be nested.
    private static let deepest = 16

    /// The number of the newest; none: 0.
    private(set) var last: Int64 = 0
    /// Each as it is written here, the newest first, with what it is of.
    private var events: Deque<(json: ByteBuffer, source: String)> = []
    /// How many of each source there are.
    private var counts: [String: Int] = [:]
    private var breakers: [String: Deque<Change>] = [:]

    func heard(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?, isConfigured: (_ service: String) -> Bool) {
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

    /// The source of an event. The source with the most events makes room first: a limit that is reached every second
    /// displaces its own events, not the news that a lock was broken. O(1).
    private static func source(_ payload: EventPayload?) -> String {
        switch payload {
        case .limit(let event): "limit \(event.service) \(event.limit)"
        case .breaker(let change): "breaker \(change.service)"
        case .lock: "lock"
        case .fleet: "fleet"
        case nil: ""
        }
    }

    /// Drops the oldest event of those sources that have most. O(capacity).
    private func drop() {
        let most = counts.values.max() ?? 0
        guard let place = events.lastIndex(where: { counts[$0.source] == most }) else { return }
        let source = events.remove(at: place).source
        counts[source] = most > 1 ? most - 1 : nil
    }

    /// Forgets the breakers of services that are there no more.
    func keep(_ isConfigured: (_ service: String) -> Bool) {
        for service in Array(breakers.keys) where !isConfigured(service) { breakers[service] = nil }
    }

    /// The changes of a breaker, the newest first.
    func changes(ofService service: String) -> [Change] { Array(breakers[service] ?? []) }

    /// The events, the newest first.
    func write(into buffer: inout ByteBuffer) {
        buffer.writeStaticString("{\"events\":[")
        for (place, event) in events.enumerated() {
            if place > 0 { buffer.writeStaticString(",") }
            buffer.writeImmutableBuffer(event.json)
        }
        buffer.writeString("],\"last\":\(last)}")
    }

    /// The published text, written anew as JSON. Its first reader decoded only the fields of its type, so the rest may be
    /// malformed and would spoil every event around it. `nil` if the text is not JSON, nested too deep or too long.
    private static func written(_ published: String, _ words: [String: JSONValue]) -> ByteBuffer? {
        guard published.utf8.count <= longest, let event = try? JSONValue(reading: published.utf8, deepest: deepest) else {
            return nil
        }
        var json = ByteBuffer()
        event.adding("words", .object(words)).write(into: &json)
        return json.readableBytes <= longest ? json : nil
    }
}

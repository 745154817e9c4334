internal import DequeModule
internal import Interlock
internal import InterlockCore
internal import NIOCore

/// The last events that this sidecar has heard, and what each breaker has been through. In its memory alone; confined to the
/// coordinator's event loop.
final class EventHistory {
    /// A change of a breaker.
    struct Change {
        var origin: String
        var atMilliseconds: Int64
        var breaker: BreakerSnapshot
    }

    private struct Remembered {
        var json: String
        /// Written here: what was published was read for what its type has, and may be no JSON elsewhere.
        var isOurs = false
    }

    /// So many events are remembered.
    static let capacity = 100
    /// So many changes of each breaker.
    static let changes = 20
    /// In bytes: what is longer is told to those who follow, and not remembered.
    private static let longest = 8 << 10
    /// So deep may what it has beyond its type's members be nested.
    private static let deepest = 16

    /// The number of the newest; none: 0.
    private(set) var last: Int64 = 0
    /// The newest first.
    private var events: Deque<Remembered> = []
    private var breakers: [String: Deque<Change>] = [:]

    func heard(_ message: EventMessage, _ event: InterlockEvent<EventPayload>?, isConfigured: (_ service: String) -> Bool) {
        if message.json.utf8.count <= Self.longest {
            last += 1
            events.prepend(Remembered(json: message.json))
            if events.count > Self.capacity { events.removeLast() }
        }
        guard case .breaker(let change) = event?.payload, let event, isConfigured(change.service) else { return }
        var changes = breakers[change.service] ?? []
        changes.prepend(Change(origin: event.origin, atMilliseconds: event.atMilliseconds, breaker: change.breaker))
        if changes.count > Self.changes { changes.removeLast() }
        breakers[change.service] = changes
    }

    /// Forgets the breakers of services that are there no more.
    func keep(_ isConfigured: (_ service: String) -> Bool) {
        for service in Array(breakers.keys) where !isConfigured(service) { breakers[service] = nil }
    }

    /// What a breaker has been through, the newest first.
    func changes(ofService service: String) -> [Change] { Array(breakers[service] ?? []) }

    /// The events, the newest first. One that is no JSON through and through would spoil them all: it is left out.
    func write(into buffer: inout ByteBuffer) {
        events = Deque(events.compactMap { $0.isOurs ? $0 : Self.written($0.json) })
        buffer.writeStaticString("{\"events\":[")
        for (place, event) in events.enumerated() {
            if place > 0 { buffer.writeStaticString(",") }
            buffer.writeString(event.json)
        }
        buffer.writeString("],\"last\":\(last)}")
    }

    /// `nil`: it is no JSON, or nested too deep.
    private static func written(_ published: String) -> Remembered? {
        guard let event = try? JSONValue(reading: published.utf8, deepest: deepest) else { return nil }
        var json = ByteBuffer()
        event.write(into: &json)
        return Remembered(json: String(buffer: json), isOurs: true)
    }
}

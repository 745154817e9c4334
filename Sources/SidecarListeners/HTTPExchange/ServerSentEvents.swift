internal import InterlockCore
internal import NIOCore
package import NIOHTTP1

/// A stream of server-sent events, which lasts until its client leaves (WHATWG HTML, section 9.2).
package struct ServerSentEvents: Sendable {
    /// An item to write to the stream.
    enum Signal<Event: Sendable>: Sendable {
        case event(Event)
        case heartbeat
    }

    private struct Loss: Encodable {
        /// The number of events that were dropped since the stream began.
        var dropped: Int64
    }

    let call: HTTPCall

    /// The interval between comments that keep proxies from closing an idle stream, and reveal that a client has left.
    private static let heartbeat: Duration = .seconds(15)
    /// The maximum number of events that are buffered for a slow client. If there are more, the oldest are dropped.
    private static let capacity = 256

    /// Creates the buffer of one stream, from which `forward` writes.
    static func signals<Event: Sendable>(for event: Event.Type) -> NewestBuffer<Signal<Event>> {
        NewestBuffer(capacity: capacity)
    }

    /// Returns the head of a stream's response.
    package static func response(_ status: HTTPResponseStatus) -> HTTPResponse {
        var response = HTTPResponse(status)
        response.headers.add(name: "Content-Type", value: "text/event-stream")
        return response
    }

    /// Returns the text of one event.
    /// - Parameter json: the event's data, on one line.
    static func event(_ type: String, json: String) -> String {
        "event: \(type)\ndata: \(json)\n\n"
    }

    /// Returns the text of one event.
    /// - Parameter fields: the fields of the event's data, sorted by name.
    package static func event(_ type: String, _ fields: KeyValuePairs<String, JSONValue>) -> String {
        var json = ByteBuffer()
        JSONValue.write(fields, into: &json)
        return event(type, json: String(buffer: json))
    }

    static func event(_ type: String, _ value: some Encodable) throws -> String {
        event(type, json: String(decoding: try value.json(), as: UTF8.self))
    }

    /// Writes each event as `event` formats it, until the events end, the client leaves or its key is removed, or the
    /// sidecar shuts down.
    @concurrent
    func forward<Event: Sendable>(
        _ signals: NewestBuffer<Signal<Event>>, to writer: HTTPBodyWriter, as event: (Event) throws -> String?
    ) async throws {
        let heartbeats = Task {
            // A client with events to read needs no heartbeat.
            while (try? await Task.sleep(for: Self.heartbeat)) != nil { signals.pushIfEmpty(.heartbeat) }
        }
        let disconnection = call.presence.disconnection.observe { signals.finish() }
        let shutdown = call.shutdown.observe { signals.finish() }
        // A caller whose key is removed gets no further events.
        let endIfRevoked: @Sendable () -> Void = { [call] in
            if call.isKeyRemoved { signals.finish() }
        }
        let revocation = call.access.observe(endIfRevoked)
        endIfRevoked()
        defer {
            revocation.end()
            call.presence.disconnection.forget(disconnection)
            call.shutdown.forget(shutdown)
            heartbeats.cancel()
            signals.cancel()
        }
        var reportedDropCount: Int64 = 0
        while let signal = await signals.next() {
            let dropCount = signals.dropped
            if dropCount > reportedDropCount {
                reportedDropCount = dropCount
                try await writer.write(try Self.event("dropped", Loss(dropped: dropCount)))
            }
            switch signal {
            case .event(let payload):
                if let text = try event(payload) { try await writer.write(text) }
            case .heartbeat:
                try await writer.write(":\n\n")
            }
        }
    }
}

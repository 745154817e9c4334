internal import FoundationEssentials

/// A message of the event channel, decoded once for all subscribers.
package struct ReceivedEvent: Sendable {
    /// The event as it was published.
    package var message: EventMessage
    /// The fleet's Redis database.
    package var database: Int
    /// The decoded event; `nil` if its type is unknown.
    package var event: InterlockEvent<EventPayload>?

    package init(message: EventMessage, event: InterlockEvent<EventPayload>) {
        self.message = message
        self.event = event
        database = event.database
    }

    /// Decodes a message; returns `nil` if it has another version, lacks a field of its type, or is not JSON.
    package init?(_ payload: [UInt8]) {
        // JSONDecoder also accepts UTF-16, so the text for forwarding could differ from the text that it decodes.
        guard payload.count <= EventMessage.maximumBytes,
            !payload.contains(where: { $0 < 0x20 && $0 != UInt8(ascii: "\t") }),
            let json = String(validating: payload, as: UTF8.self),
            let decoded = try? JSONDecoder().decode(DecodedEvent.self, from: Data(payload))
        else { return nil }
        message = EventMessage(type: decoded.type, json: json)
        database = decoded.database
        event = decoded.event
    }
}

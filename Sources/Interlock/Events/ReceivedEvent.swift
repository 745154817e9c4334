internal import FoundationEssentials

/// A message of the event channel, read once for all who follow.
struct ReceivedEvent: Sendable {
    /// As it was published.
    var message: EventMessage
    /// The Redis database it happened in.
    var database: Int
    /// What it says; `nil`: its type is not known here.
    var event: InterlockEvent<EventPayload>?

    init(message: EventMessage, event: InterlockEvent<EventPayload>) {
        self.message = message
        self.event = event
        database = event.database
    }

    /// `nil` when the message is of another version, lacks what its type has, or is no event at all.
    init?(_ payload: [UInt8]) {
        // JSON's decoder would also take UTF-16, and what is passed on would be another text than what was read.
        guard payload.count <= EventMessage.longest, !payload.contains(where: { $0 < 0x20 && $0 != UInt8(ascii: "\t") }),
            let json = String(validating: payload, as: UTF8.self),
            let reading = try? JSONDecoder().decode(EventReading.self, from: Data(payload))
        else { return nil }
        message = EventMessage(type: reading.type, json: json)
        database = reading.database
        event = reading.event
    }
}

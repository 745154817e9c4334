/// An event as it was published: one JSON object on one line, version 1.
public struct EventMessage: Hashable, Sendable {
    /// The object's `type`: up to 64 lower-case letters, digits, dots, dashes and underscores.
    public let type: String
    public let json: String

    /// Longer messages are none of Interlock's.
    static let longest = 64 << 10

    init(type: String, json: String) {
        self.type = type
        self.json = json
    }

    /// Reads a message of the event channel; `nil` when it is of another version, or no event.
    public init?(_ message: [UInt8]) {
        guard let event = ReceivedEvent(message) else { return nil }
        self = event.message
    }

    /// Types stand in lines of text, so they have nothing in them that ends one.
    static func isType(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: ".-_".utf8.contains(byte)
                }
            }
    }
}

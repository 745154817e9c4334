internal import InterlockCore
internal import FoundationEssentials
internal import Interlock

/// A message on the fleet's channel is either a one-line event or ignored. Text inside an event cannot turn it into
/// another event.
enum EventProperties {
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        if let message = ReceivedEvent(input)?.message {
            try expect(Array(message.json.utf8) == input, "a message was read as \(message.json)")
            try expect(!message.type.utf8.contains { $0 <= 0x20 || $0 == 0x7F }, "the type of an event is \(message.type)")
            try expect(ReceivedEvent(Array(message.json.utf8))?.message == message, "read again, the event differs")
        }
        try checkQuoting(String(decoding: input, as: UTF8.self))
    }

    private static func checkQuoting(_ text: String) throws(FuzzFinding) {
        let quoted = JSONText.quoted(text)
        try expect(!quoted.utf8.contains { $0 < 0x20 }, "a text in quotes has more than one line: \(quoted)")
        let decoded = try? JSONDecoder().decode(String.self, from: Data(quoted.utf8))
        try expect(decoded.map { $0.utf8.elementsEqual(text.utf8) } == true, "\(quoted) was read as \(decoded ?? "no text")")
    }
}

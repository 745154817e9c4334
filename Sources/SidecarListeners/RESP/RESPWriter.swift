/// Writes replies in the connection's version of RESP.
package struct RESPWriter {
    package let buffer = ReplyBuffer()
    var speaksRESP3: Bool

    package init(speaksRESP3: Bool = false) {
        self.init(speaksRESP3: speaksRESP3, countingIn: nil)
    }

    init(speaksRESP3: Bool, countingIn errors: RESPErrorCounters?) {
        self.speaksRESP3 = speaksRESP3
        buffer.errors = errors
    }

    /// Returns a writer with its own buffer, for a reply that waits for earlier ones.
    func withNewBuffer() -> RESPWriter { RESPWriter(speaksRESP3: speaksRESP3, countingIn: buffer.errors) }

    /// Writes a simple string.
    func simple(_ text: StaticString) {
        buffer.append("+" as StaticString)
        buffer.append(text)
        buffer.append("\r\n" as StaticString)
    }

    /// Writes an error: a code that programs switch on, and a sentence for people. Line breaks become spaces.
    package func error(_ code: String, _ message: String) {
        buffer.errors?.count(code)
        buffer.append("-" as StaticString)
        buffer.append(code)
        buffer.append(" " as StaticString)
        let isOneLine = !message.utf8.contains { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
        buffer.append(isOneLine ? message : String(message.map { $0.isNewline ? " " : $0 }))
        buffer.append("\r\n" as StaticString)
    }

    func integer(_ value: Int64) {
        buffer.appendHeader(UInt8(ascii: ":"), value)
    }

    /// Writes a bulk string.
    package func bulk(_ text: String) {
        buffer.appendHeader(UInt8(ascii: "$"), Int64(text.utf8.count))
        buffer.append(text)
        buffer.append("\r\n" as StaticString)
    }

    /// Writes bytes as a bulk string.
    func bulk(_ bytes: UnsafeRawBufferPointer) {
        buffer.appendHeader(UInt8(ascii: "$"), Int64(bytes.count))
        buffer.append(bytes)
        buffer.append("\r\n" as StaticString)
    }

    func null() {
        buffer.append(speaksRESP3 ? "_\r\n" as StaticString : "$-1\r\n")
    }

    func bulkOrNull(_ text: String?) {
        if let text { bulk(text) } else { null() }
    }

    func integerOrNull(_ value: Int64?) {
        if let value { integer(value) } else { null() }
    }

    /// Writes a double in RESP3, and its text in RESP2.
    func double(_ value: Double) {
        guard speaksRESP3 else { return bulk("\(value)") }
        buffer.append(",\(value)\r\n")
    }

    /// Writes the head of an array with this many elements.
    func array(_ count: Int) {
        buffer.appendHeader(UInt8(ascii: "*"), Int64(count))
    }

    /// Writes the head of a map with this many pairs; in RESP2, of a flat array with twice as many elements.
    func map(_ pairCount: Int) {
        if speaksRESP3 { buffer.appendHeader(UInt8(ascii: "%"), Int64(pairCount)) } else { array(2 * pairCount) }
    }

    /// Writes the head of a push, which is not a reply; in RESP2, of an array.
    func push(_ count: Int) {
        buffer.appendHeader(speaksRESP3 ? UInt8(ascii: ">") : UInt8(ascii: "*"), Int64(count))
    }
}

internal import NIOCore

/// Writes replies in the version of RESP that the connection speaks.
struct RESPWriter {
    var buffer = ByteBuffer()
    var speaksRESP3 = false

    mutating func simple(_ text: StaticString) {
        buffer.writeStaticString("+")
        buffer.writeStaticString(text)
        buffer.writeStaticString("\r\n")
    }

    /// An error: a word a program switches on, and a sentence for people. Line ends in it become spaces.
    mutating func error(_ word: String, _ message: String) {
        buffer.writeStaticString("-")
        buffer.writeString(word)
        buffer.writeStaticString(" ")
        let isOneLine = !message.utf8.contains { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }
        buffer.writeString(isOneLine ? message : String(message.map { $0.isNewline ? " " : $0 }))
        buffer.writeStaticString("\r\n")
    }

    mutating func integer(_ value: Int64) {
        header(UInt8(ascii: ":"), value)
    }

    mutating func bulk(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            header(UInt8(ascii: "$"), Int64(bytes.count))
            buffer.writeBytes(bytes)
        }
        buffer.writeStaticString("\r\n")
    }

    mutating func null() {
        buffer.writeStaticString(speaksRESP3 ? "_\r\n" : "$-1\r\n")
    }

    mutating func bulkOrNull(_ text: String?) {
        if let text { bulk(text) } else { null() }
    }

    mutating func integerOrNull(_ value: Int64?) {
        if let value { integer(value) } else { null() }
    }

    /// A double in RESP3, its text in RESP2.
    mutating func double(_ value: Double) {
        guard speaksRESP3 else { return bulk("\(value)") }
        buffer.writeString(",\(value)\r\n")
    }

    mutating func array(_ count: Int) {
        header(UInt8(ascii: "*"), Int64(count))
    }

    /// A map of so many pairs; in RESP2 a flat array of twice as many elements.
    mutating func map(_ pairs: Int) {
        if speaksRESP3 { header(UInt8(ascii: "%"), Int64(pairs)) } else { array(2 * pairs) }
    }

    /// Out-of-band data; in RESP2 an array.
    mutating func push(_ count: Int) {
        header(speaksRESP3 ? UInt8(ascii: ">") : UInt8(ascii: "*"), Int64(count))
    }

    /// A type byte, a number and the line's end, without a string in between.
    private mutating func header(_ type: UInt8, _ value: Int64) {
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: 24) { target in
            target[0] = type
            var length = 1
            var magnitude = value.magnitude
            if value < 0 {
                target[1] = UInt8(ascii: "-")
                length = 2
            }
            let start = length
            repeat {
                target[length] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: magnitude % 10)
                magnitude /= 10
                length += 1
            } while magnitude > 0
            var left = start
            var right = length - 1
            while left < right {
                target.swapAt(left, right)
                left += 1
                right -= 1
            }
            target[length] = UInt8(ascii: "\r")
            target[length + 1] = UInt8(ascii: "\n")
            return length + 2
        }
    }
}

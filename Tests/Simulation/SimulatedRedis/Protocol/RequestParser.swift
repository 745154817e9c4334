/// Parses commands (RESP arrays of bulk strings) from bytes that arrive in arbitrary pieces.
struct RequestParser {
    /// A protocol error, which is sent to the client before it is disconnected.
    struct Violation: Error {
        var text: String
    }

    private var buffer: [UInt8] = []
    /// The index of the first byte that is not consumed.
    private var position = 0
    private var arguments: [Bytes] = []
    /// The number of missing arguments of the current command; 0 if there is no command.
    private var missing = 0
    /// The length of the current argument.
    private var length: Int?

    private static let maximumArguments: Int64 = 1 << 31 - 1
    private static let maximumArgumentLength: Int64 = 512 << 20
    private static let maximumLineLength = 64 << 10

    mutating func append(_ bytes: [UInt8]) {
        if position == buffer.count {
            buffer = bytes
        } else {
            buffer.removeSubrange(..<position)
            buffer.append(contentsOf: bytes)
        }
        position = 0
    }

    /// Returns the next command; `nil` if more bytes are needed.
    mutating func next() throws(Violation) -> [Bytes]? {
        while missing == 0 {
            guard let start = try number(after: "*", tooLong: "too big mbulk count string") else { return nil }
            guard let count = start.value, count <= Self.maximumArguments else {
                throw Violation(text: "invalid multibulk length")
            }
            // An empty array is not a command and gets no reply.
            missing = max(0, Int(count))
        }
        while missing > 0 {
            guard let length = try argumentLength() else { return nil }
            guard buffer.count - position >= length + 2 else { return nil }
            arguments.append(Bytes(Array(buffer[position..<position + length])))
            position += length + 2
            self.length = nil
            missing -= 1
        }
        defer { arguments = [] }
        return arguments
    }

    private mutating func argumentLength() throws(Violation) -> Int? {
        if let length { return length }
        guard let start = try number(after: "$", tooLong: "too big bulk count string") else { return nil }
        guard let value = start.value, (0...Self.maximumArgumentLength).contains(value) else {
            throw Violation(text: "invalid bulk length")
        }
        length = Int(value)
        return length
    }

    /// Reads a line that begins with `kind`. The value is `nil` if it is not a number.
    private mutating func number(
        after kind: Unicode.Scalar, tooLong: String
    ) throws(Violation) -> (value: Int64?, Void)? {
        guard let end = buffer[position...].firstIndex(of: UInt8(ascii: "\r")), end + 1 < buffer.count else {
            if buffer.count - position > Self.maximumLineLength { throw Violation(text: tooLong) }
            return nil
        }
        guard buffer[position] == UInt8(ascii: kind) else {
            throw Violation(text: "expected '\(kind)', got '\(Unicode.Scalar(buffer[position]))'")
        }
        let value = Bytes(Array(buffer[position + 1..<end])).integer
        position = end + 2
        return (value, ())
    }
}

/// An encoder of commands as clients send them.
package enum RequestEncoder {
    package static func encode(_ words: [String]) -> [UInt8] { encode(words.map { Array($0.utf8) }) }

    package static func encode(_ words: [[UInt8]]) -> [UInt8] {
        var bytes = Array("*\(words.count)\r\n".utf8)
        for word in words {
            bytes += Array("$\(word.count)\r\n".utf8)
            bytes += word
            bytes += [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
        }
        return bytes
    }
}

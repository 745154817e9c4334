/// Parses commands (RESP arrays of bulk strings) from bytes that arrive in arbitrary pieces.
struct RequestParser {
    /// A protocol error. The server sends it to the client and closes the connection.
    struct Violation: Error {
        var text: String
    }

    private var buffer: [UInt8] = []
    /// The index of the first byte that is not consumed.
    private var startIndex = 0
    private var arguments: [Bytes] = []
    /// The number of missing arguments of the current command; 0 if there is no command.
    private var missingCount = 0
    /// The length of the current argument; `nil` if it is not known yet.
    private var pendingLength: Int?

    private static let maximumArguments: Int64 = 1 << 31 - 1
    private static let maximumArgumentLength: Int64 = 512 << 20
    private static let maximumLineLength = 64 << 10

    mutating func append(_ bytes: [UInt8]) {
        if startIndex == buffer.count {
            buffer = bytes
        } else {
            buffer.removeSubrange(..<startIndex)
            buffer.append(contentsOf: bytes)
        }
        startIndex = 0
    }

    /// Returns the next command; `nil` if more bytes are needed.
    mutating func next() throws(Violation) -> [Bytes]? {
        while missingCount == 0 {
            guard let start = try number(after: "*", tooLong: "too big mbulk count string") else { return nil }
            guard let count = start.value, count <= Self.maximumArguments else {
                throw Violation(text: "invalid multibulk length")
            }
            // An empty array is not a command and gets no reply.
            missingCount = max(0, Int(count))
        }
        while missingCount > 0 {
            guard let length = try argumentLength() else { return nil }
            guard buffer.count - startIndex >= length + 2 else { return nil }
            arguments.append(Bytes(Array(buffer[startIndex..<startIndex + length])))
            startIndex += length + 2
            pendingLength = nil
            missingCount -= 1
        }
        defer { arguments = [] }
        return arguments
    }

    private mutating func argumentLength() throws(Violation) -> Int? {
        if let pendingLength { return pendingLength }
        guard let start = try number(after: "$", tooLong: "too big bulk count string") else { return nil }
        guard let value = start.value, (0...Self.maximumArgumentLength).contains(value) else {
            throw Violation(text: "invalid bulk length")
        }
        pendingLength = Int(value)
        return pendingLength
    }

    /// Reads a line that begins with `kind`; returns `nil` if it is incomplete. The value is `nil` if it is not a
    /// number.
    private mutating func number(
        after kind: Unicode.Scalar, tooLong: String
    ) throws(Violation) -> (value: Int64?, Void)? {
        guard let end = buffer[startIndex...].firstIndex(of: UInt8(ascii: "\r")), end + 1 < buffer.count else {
            if buffer.count - startIndex > Self.maximumLineLength { throw Violation(text: tooLong) }
            return nil
        }
        guard buffer[startIndex] == UInt8(ascii: kind) else {
            throw Violation(text: "expected '\(kind)', got '\(Unicode.Scalar(buffer[startIndex]))'")
        }
        let value = Bytes(Array(buffer[startIndex + 1..<end])).integer
        startIndex = end + 2
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

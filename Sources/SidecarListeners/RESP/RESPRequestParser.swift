/// Finds the next command in a connection's bytes: a RESP array of bulk strings, or an inline command, which is a line
/// of words. Pure: takes bytes and returns one outcome.
///
/// Commands over the limits, which no client needs, are rejected before they take memory.
package struct RESPRequestParser {
    package enum Outcome: Equatable {
        /// A complete command of `consumed` bytes, whose arguments are in `arguments`.
        case command(consumed: Int)
        /// An empty line or array of `consumed` bytes.
        case empty(consumed: Int)
        /// More bytes are needed.
        case incomplete
        /// A violation of the protocol, which ends the connection. The string is the reason, for the client.
        case malformed(String)
        /// The beginning of an HTTP request, which a web page can send. The connection closes without a reply.
        case http
    }

    /// The limits of a command.
    package struct Limits: Sendable {
        /// The maximum number of arguments.
        package var arrayLength: Int
        /// The maximum length of an argument, in bytes.
        package var bulkLength: Int
        /// The maximum length of a command with all its arguments, in bytes.
        package var commandLength: Int

        package static let usual = Limits(arrayLength: 1024, bulkLength: 64 << 10, commandLength: 1 << 20)
        /// The limits for clients that have not logged in, which suffice for a login.
        package static let beforeLogin = Limits(arrayLength: 10, bulkLength: 16 << 10, commandLength: 16 << 10)
    }

    /// The maximum length of an inline command, in bytes.
    package static let maximumLineLength = 64 << 10

    package var limits = Limits.usual

    /// The ranges of the last command's arguments. The array is reused, so that parsing allocates nothing once warm.
    package private(set) var arguments: [Range<Int>] = []

    /// The words of the last command without quotes and escapes, if it was an inline command with quotes. `arguments`
    /// then refers to these bytes. Otherwise this is empty, and `arguments` refers to the connection's bytes.
    package private(set) var unquoted: [UInt8] = []

    package init() {}

    /// Reads one command from the start of `bytes`.
    package mutating func next(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        guard let first = bytes.first else { return .incomplete }
        if !unquoted.isEmpty { unquoted = [] }
        return first == UInt8(ascii: "*") ? array(bytes) : inline(bytes)
    }

    private mutating func array(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        arguments.removeAll(keepingCapacity: true)
        var position = 1
        let count: Int
        switch Self.number(bytes, at: &position) {
        case .value(let value) where value <= limits.arrayLength: count = max(0, value)
        case .value, .invalid: return .malformed("invalid multibulk length: at most \(limits.arrayLength) arguments")
        case .incomplete: return .incomplete
        }
        guard count > 0 else { return .empty(consumed: position) }
        for _ in 0..<count {
            guard position < bytes.count else { return incompleteUnlessTooLong(bytes) }
            guard bytes[position] == UInt8(ascii: "$") else {
                return .malformed("expected '$', got byte \(bytes[position])")
            }
            position += 1
            let length: Int
            switch Self.number(bytes, at: &position) {
            case .value(let value) where (0...limits.bulkLength).contains(value): length = value
            case .value, .invalid: return .malformed("invalid bulk length: at most \(limits.bulkLength) bytes")
            case .incomplete: return incompleteUnlessTooLong(bytes)
            }
            guard bytes.count - position >= length + 2 else { return incompleteUnlessTooLong(bytes) }
            guard bytes[position + length] == UInt8(ascii: "\r"), bytes[position + length + 1] == UInt8(ascii: "\n") else {
                return .malformed("expected CRLF at the end of a bulk string")
            }
            arguments.append(position..<(position + length))
            position += length + 2
        }
        guard position <= limits.commandLength else { return tooLong }
        return .command(consumed: position)
    }

    private func incompleteUnlessTooLong(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        bytes.count > limits.commandLength ? tooLong : .incomplete
    }

    private var tooLong: Outcome { .malformed("a command is longer than \(limits.commandLength) bytes") }

    private enum Number {
        case value(Int)
        case incomplete
        case invalid
    }

    /// Reads the number up to `\r\n`, and moves `position` past the line end.
    private static func number(_ bytes: UnsafeRawBufferPointer, at position: inout Int) -> Number {
        var index = position
        var value = 0
        var digitCount = 0
        var isNegative = false
        while index < bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                guard digitCount < 10 else { return .invalid }
                value = value * 10 + Int(byte - UInt8(ascii: "0"))
                digitCount += 1
            case UInt8(ascii: "-") where digitCount == 0 && !isNegative:
                isNegative = true
            case UInt8(ascii: "\r") where digitCount > 0:
                guard index + 1 < bytes.count else { return .incomplete }
                guard bytes[index + 1] == UInt8(ascii: "\n") else { return .invalid }
                position = index + 2
                return .value(isNegative ? -value : value)
            default:
                return .invalid
            }
            index += 1
        }
        return .incomplete
    }

    // MARK: Inline

    private mutating func inline(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        arguments.removeAll(keepingCapacity: true)
        let maximumLength = min(Self.maximumLineLength, limits.commandLength)
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            guard !Self.looksLikeHTTP(bytes) else { return .http }
            return bytes.count > maximumLength
                ? .malformed("an inline command is longer than \(maximumLength) bytes") : .incomplete
        }
        guard end <= maximumLength else {
            return .malformed("an inline command is longer than \(maximumLength) bytes")
        }
        guard !Self.looksLikeHTTP(bytes) else { return .http }
        let line = UnsafeRawBufferPointer(rebasing: bytes[..<end])
        if line.contains(where: Self.isQuote) {
            guard splitQuoted(line) else { return .malformed("unbalanced quotes in request") }
        } else {
            split(line)
        }
        guard arguments.count <= limits.arrayLength else {
            return .malformed("an inline command has more than \(limits.arrayLength) words")
        }
        return arguments.isEmpty ? .empty(consumed: end + 1) : .command(consumed: end + 1)
    }

    private mutating func split(_ line: UnsafeRawBufferPointer) {
        var start: Int?
        for (index, byte) in line.enumerated() {
            if let wordStart = start, Self.isSpace(byte) {
                arguments.append(wordStart..<index)
                start = nil
            } else if start == nil, !Self.isSpace(byte) {
                start = index
            }
        }
        if let start { arguments.append(start..<line.count) }
    }

    /// Splits a line as Redis does: "…" may have the escapes \n, \r, \t, \b, \a, \xHH and a backslash before any other
    /// byte; '…' may have only \'.
    /// - Returns: `false` if a quote is not closed, or is not followed by a space.
    private mutating func splitQuoted(_ line: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < line.count {
            guard !Self.isSpace(line[index]) else {
                index += 1
                continue
            }
            let start = unquoted.count
            while index < line.count, !Self.isSpace(line[index]) {
                let byte = line[index]
                index += 1
                if !Self.isQuote(byte) {
                    unquoted.append(byte)
                } else if !takeQuoted(line, &index, upTo: byte) {
                    return false
                }
            }
            arguments.append(start..<unquoted.count)
        }
        return true
    }

    /// Appends the rest of a quoted part to `unquoted`, up to the closing quote.
    /// - Returns: `false` if the quote is not closed, or is not followed by a space.
    private mutating func takeQuoted(_ line: UnsafeRawBufferPointer, _ index: inout Int, upTo quote: UInt8) -> Bool {
        while index < line.count {
            let byte = line[index]
            index += 1
            if byte == quote { return index == line.count || Self.isSpace(line[index]) }
            guard byte == UInt8(ascii: "\\"), index < line.count else {
                unquoted.append(byte)
                continue
            }
            let escaped = line[index]
            if quote == UInt8(ascii: "'") {
                guard escaped == quote else {
                    unquoted.append(byte)
                    continue
                }
                unquoted.append(escaped)
            } else if escaped == UInt8(ascii: "x"), let value = Self.hexadecimal(line.dropFirst(index + 1).prefix(2)) {
                unquoted.append(value)
                index += 2
            } else {
                unquoted.append(Self.escapes[escaped] ?? escaped)
            }
            index += 1
        }
        return false
    }

    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "n"): 0x0A, UInt8(ascii: "r"): 0x0D, UInt8(ascii: "t"): 0x09, UInt8(ascii: "b"): 0x08,
        UInt8(ascii: "a"): 0x07,
    ]

    private static func isSpace(_ byte: UInt8) -> Bool { byte <= UInt8(ascii: " ") }

    private static func isQuote(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") }

    /// Returns the value of two hexadecimal digits; `nil` if the bytes are not two digits.
    private static func hexadecimal(_ digits: Slice<UnsafeRawBufferPointer>) -> UInt8? {
        guard digits.count == 2 else { return nil }
        // `UInt8.init` accepts a sign, which is not allowed here.
        guard digits.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "-") }) else { return nil }
        return UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
    }

    /// Returns whether the bytes begin an HTTP request. A web page can make a browser send one here: neither its first
    /// line nor its body may be taken for commands.
    private static func looksLikeHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        for start in httpStarts where bytes.count >= start.count {
            if zip(bytes, start).allSatisfy({ RESPRequest.upperCased($0) == $1 }) { return true }
        }
        return false
    }

    private static let httpStarts: [[UInt8]] =
        ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH ", "HOST:"].map { Array($0.utf8) }
}

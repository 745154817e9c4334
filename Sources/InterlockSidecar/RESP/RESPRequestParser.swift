/// Finds the next command in a connection's bytes: a RESP array of bulk strings, or an inline line of words.
///
/// Pure: bytes in, one outcome out. Refuses what no client needs before it costs memory.
package struct RESPRequestParser {
    package enum Outcome: Equatable {
        /// A whole command; `arguments` has it, and so many bytes are used up.
        case command(consumed: Int)
        /// An empty line or array: so many bytes are used up.
        case nothing(consumed: Int)
        /// More bytes are needed.
        case incomplete
        /// The connection cannot go on: why, for the client.
        case malformed(String)
        /// A web page is talking to us: the connection is closed without a word.
        case http
    }

    /// What a command may be.
    package struct Bounds: Sendable {
        /// Arguments.
        package var array: Int
        /// Bytes of an argument.
        package var bulk: Int
        /// Bytes of the whole command with all its arguments.
        package var command: Int

        package static let usual = Bounds(array: 1024, bulk: 64 << 10, command: 1 << 20)
        /// Of those who have not shown who they are: enough for a login.
        package static let beforeLogin = Bounds(array: 10, bulk: 16 << 10, command: 16 << 10)
    }

    package static let longestLine = 64 << 10

    package var bounds = Bounds.usual

    /// Where the arguments of the last command lie. Kept so that parsing allocates nothing once warm.
    package private(set) var arguments: [Range<Int>] = []

    package init() {}

    /// Reads one command from the start of `bytes`.
    package mutating func next(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        guard let first = bytes.first else { return .incomplete }
        return first == UInt8(ascii: "*") ? array(bytes) : inline(bytes)
    }

    private mutating func array(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        arguments.removeAll(keepingCapacity: true)
        var position = 1
        let count: Int
        switch Self.number(bytes, at: &position) {
        case .value(let value) where value <= bounds.array: count = max(0, value)
        case .value, .invalid: return .malformed("invalid multibulk length: at most \(bounds.array) arguments")
        case .incomplete: return .incomplete
        }
        guard count > 0 else { return .nothing(consumed: position) }
        for _ in 0..<count {
            guard position < bytes.count else { return incompleteUnlessTooLong(bytes) }
            guard bytes[position] == UInt8(ascii: "$") else {
                return .malformed("expected '$', got byte \(bytes[position])")
            }
            position += 1
            let length: Int
            switch Self.number(bytes, at: &position) {
            case .value(let value) where (0...bounds.bulk).contains(value): length = value
            case .value, .invalid: return .malformed("invalid bulk length: at most \(bounds.bulk) bytes")
            case .incomplete: return incompleteUnlessTooLong(bytes)
            }
            guard bytes.count - position >= length + 2 else { return incompleteUnlessTooLong(bytes) }
            guard bytes[position + length] == UInt8(ascii: "\r"), bytes[position + length + 1] == UInt8(ascii: "\n") else {
                return .malformed("a bulk string does not end where its length says")
            }
            arguments.append(position..<(position + length))
            position += length + 2
        }
        guard position <= bounds.command else { return tooLong }
        return .command(consumed: position)
    }

    private func incompleteUnlessTooLong(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        bytes.count > bounds.command ? tooLong : .incomplete
    }

    private var tooLong: Outcome { .malformed("a command is longer than \(bounds.command) bytes") }

    private enum Number {
        case value(Int)
        case incomplete
        case invalid
    }

    /// The number up to `\r\n` at `position`, which is moved behind them.
    private static func number(_ bytes: UnsafeRawBufferPointer, at position: inout Int) -> Number {
        var index = position
        var value = 0
        var digits = 0
        var isNegative = false
        while index < bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                guard digits < 10 else { return .invalid }
                value = value * 10 + Int(byte - UInt8(ascii: "0"))
                digits += 1
            case UInt8(ascii: "-") where digits == 0 && !isNegative:
                isNegative = true
            case UInt8(ascii: "\r") where digits > 0:
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
        let longest = min(Self.longestLine, bounds.command)
        guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            guard !Self.looksLikeHTTP(bytes) else { return .http }
            return bytes.count > longest ? .malformed("an inline command is longer than \(longest) bytes") : .incomplete
        }
        guard end <= longest else { return .malformed("an inline command is longer than \(longest) bytes") }
        guard !Self.looksLikeHTTP(bytes) else { return .http }
        var start: Int?
        for index in 0...end {
            let isSpace = bytes[index] <= UInt8(ascii: " ")
            if let word = start, isSpace {
                arguments.append(word..<index)
                start = nil
            } else if start == nil, !isSpace {
                start = index
            }
        }
        guard arguments.count <= bounds.array else {
            return .malformed("an inline command has more than \(bounds.array) words")
        }
        return arguments.isEmpty ? .nothing(consumed: end + 1) : .command(consumed: end + 1)
    }

    /// A browser can be made to send a request here; its first line must not be taken for a command, nor its body be read.
    private static func looksLikeHTTP(_ bytes: UnsafeRawBufferPointer) -> Bool {
        for start in httpStarts where bytes.count >= start.count {
            if zip(bytes, start).allSatisfy({ RESPRequest.upperCased($0) == $1 }) { return true }
        }
        return false
    }

    private static let httpStarts: [[UInt8]] =
        ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH ", "HOST:"].map { Array($0.utf8) }
}

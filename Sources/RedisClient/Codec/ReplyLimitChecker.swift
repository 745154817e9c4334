/// Checks the headers of a reply stream against `ReplyLimits` before hiredis reads them. Tracks the structure of the
/// replies without copying them.
///
/// Required because hiredis 0.14, the version of Debian 12, trusts the lengths that a server announces and allocates
/// memory for a value before it arrives.
struct ReplyLimitChecker {
    private enum State {
        /// The first byte of a header follows.
        case type
        /// A header that carries a number: `:` integers, `$` bulk lengths, `*` array lengths.
        case number(kind: UInt8, value: Int, isNegative: Bool, digits: Int)
        /// A status or error line, with its number of bytes so far.
        case line(length: Int)
        /// The `\n` that must follow a `\r`; the announced value comes next.
        case lineFeed(then: Announced)
        /// A bulk string, with the number of bytes left, including its `\r\n`.
        case bulk(remaining: Int)
    }

    private enum Announced {
        case value
        case bulk(length: Int)
        case array(length: Int)
    }

    private let limits: ReplyLimits
    private var state = State.type
    /// The number of elements that each unfinished array still lacks, outermost first.
    private var remainingElements: [Int] = []
    private var replyLength = 0

    init(limits: ReplyLimits) {
        self.limits = limits
    }

    /// Checks the next bytes of the stream. O(headers); bulk contents are skipped.
    /// - Throws: `protocolViolation`; do not feed the bytes to hiredis then.
    mutating func inspect(_ bytes: UnsafeRawBufferPointer) throws(RedisError) {
        var index = 0
        while index < bytes.count {
            switch state {
            case .type:
                try count(1)
                state = try Self.begin(bytes[index])
                index += 1
            case .bulk(let remaining):
                let skipped = min(remaining, bytes.count - index)
                try count(skipped)
                index += skipped
                if skipped == remaining { finishValue() } else { state = .bulk(remaining: remaining - skipped) }
            case .number, .line, .lineFeed:
                try count(1)
                try advance(over: bytes[index])
                index += 1
            }
        }
    }

    /// Adds to the length of the current reply. Call it before `finishValue`, which may reset the length.
    private mutating func count(_ length: Int) throws(RedisError) {
        replyLength += length
        guard replyLength <= limits.replyLength else {
            throw RedisError(.protocolViolation, "the reply is longer than \(limits.replyLength) bytes")
        }
    }

    /// The first byte of a TLS alert, the reply of a TLS server to plaintext (RFC 8446, section 5.1).
    private static let tlsAlert: UInt8 = 21

    private static func begin(_ byte: UInt8) throws(RedisError) -> State {
        switch byte {
        case UInt8(ascii: ":"), UInt8(ascii: "$"), UInt8(ascii: "*"):
            return .number(kind: byte, value: 0, isNegative: false, digits: 0)
        case UInt8(ascii: "+"), UInt8(ascii: "-"):
            return .line(length: 0)
        case UInt8(ascii: "H"):
            throw .httpPeer
        case Self.tlsAlert:
            throw .tlsPeer
        default:
            throw RedisError(.protocolViolation, "a reply starts with byte \(byte), which is not a RESP2 type")
        }
    }

    private mutating func advance(over byte: UInt8) throws(RedisError) {
        switch state {
        case .number(let kind, let value, let isNegative, let digits):
            try advanceNumber(over: byte, kind: kind, value: value, isNegative: isNegative, digits: digits)
        case .line(let length):
            guard byte != UInt8(ascii: "\r") else {
                state = .lineFeed(then: .value)
                return
            }
            guard length < limits.lineLength else {
                throw RedisError(.protocolViolation, "a reply line is longer than \(limits.lineLength) bytes")
            }
            state = .line(length: length + 1)
        case .lineFeed(let announced):
            guard byte == UInt8(ascii: "\n") else {
                throw RedisError(.protocolViolation, "a reply line does not end with CR LF")
            }
            try begin(announced)
        case .type, .bulk:
            preconditionFailure("inspect must handle this state")
        }
    }

    private mutating func advanceNumber(
        over byte: UInt8, kind: UInt8, value: Int, isNegative: Bool, digits: Int
    ) throws(RedisError) {
        switch byte {
        case UInt8(ascii: "\r") where digits > 0:
            state = .lineFeed(then: try announce(kind: kind, value: isNegative ? 0 &- value : value))
        case UInt8(ascii: "-") where digits == 0 && !isNegative,
            UInt8(ascii: "+") where digits == 0 && !isNegative && kind == UInt8(ascii: ":"):
            state = .number(kind: kind, value: 0, isNegative: byte == UInt8(ascii: "-"), digits: 0)
        case UInt8(ascii: "0")...UInt8(ascii: "9") where digits < 19:
            // 19 digits may overflow. Only lengths are checked, and a length that wraps is negative or far over every
            // limit.
            state = .number(
                kind: kind, value: value &* 10 &+ Int(byte &- UInt8(ascii: "0")), isNegative: isNegative, digits: digits + 1)
        default:
            throw RedisError(.protocolViolation, "a reply header is not a number")
        }
    }

    private func announce(kind: UInt8, value: Int) throws(RedisError) -> Announced {
        switch kind {
        case UInt8(ascii: ":"):
            return .value
        case UInt8(ascii: "$"):
            guard value != -1 else { return .value }
            guard (0...limits.bulkLength).contains(value) else {
                throw RedisError(
                    .protocolViolation,
                    "a reply announces a bulk string of \(value) bytes; expected 0 to \(limits.bulkLength)")
            }
            return .bulk(length: value)
        default:
            guard value != -1 else { return .value }
            guard (0...limits.arrayLength).contains(value) else {
                throw RedisError(
                    .protocolViolation,
                    "a reply announces an array of \(value) elements; expected 0 to \(limits.arrayLength)")
            }
            return .array(length: value)
        }
    }

    private mutating func begin(_ announced: Announced) throws(RedisError) {
        switch announced {
        case .value:
            finishValue()
        case .bulk(let length):
            state = .bulk(remaining: length + 2)
        case .array(0):
            finishValue()
        case .array(let length):
            guard remainingElements.count < limits.depth else {
                throw RedisError(.protocolViolation, "a reply nests arrays deeper than \(limits.depth)")
            }
            remainingElements.append(length)
            state = .type
        }
    }

    private mutating func finishValue() {
        state = .type
        while let last = remainingElements.last {
            guard last == 1 else {
                remainingElements[remainingElements.count - 1] = last - 1
                return
            }
            remainingElements.removeLast()
        }
        replyLength = 0
    }
}

import NIOCore

/// Takes replies off a stream of bytes: of RESP2 just what the commands of leases answer with.
struct SidecarReplyReader {
    private var received = ByteBuffer()

    mutating func append(_ bytes: ByteBuffer) {
        if received.readableBytes == 0 {
            received = bytes
        } else {
            received.writeImmutableBuffer(bytes)
        }
    }

    /// The next reply; `nil`: it has not wholly come.
    mutating func next() throws -> SidecarReply? {
        let start = received.readerIndex
        if let reply = try reply() { return reply }
        received.moveReaderIndex(to: start)
        return nil
    }

    private mutating func reply() throws -> SidecarReply? {
        guard let (kind, rest) = line() else { return nil }
        switch kind {
        case UInt8(ascii: "-"):
            return .error(rest)
        case UInt8(ascii: ":"):
            return .integer(try number(rest))
        case UInt8(ascii: "$") where rest == "-1":
            return .nothing
        case UInt8(ascii: "*") where rest == "3":
            guard let token = try bulk(), let fence = try integer(), try integer() != nil else { return nil }
            return .lease(token: token, fence: fence)
        default:
            throw BenchmarkFailure("a sidecar answered with what no command of leases does: \(Unicode.Scalar(kind))\(rest)")
        }
    }

    private mutating func bulk() throws -> String? {
        guard let (_, rest) = line() else { return nil }
        let length = Int(try number(rest))
        guard let text = received.readString(length: length), received.readableBytes >= 2 else { return nil }
        received.moveReaderIndex(forwardBy: 2)
        return text
    }

    private mutating func integer() throws -> Int64? {
        try line().map { try number($0.rest) }
    }

    private func number(_ text: String) throws -> Int64 {
        guard let number = Int64(text) else { throw BenchmarkFailure("a sidecar answered with a number that is none: \(text)") }
        return number
    }

    /// A line without its end: the byte that says its kind, and what follows.
    private mutating func line() -> (kind: UInt8, rest: String)? {
        guard let newline = received.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let length = newline - received.readerIndex - 1
        guard length > 0, let kind: UInt8 = received.readInteger(), let rest = received.readString(length: length - 1) else {
            return nil
        }
        received.moveReaderIndex(forwardBy: 2)
        return (kind, rest)
    }
}

/// What a sidecar answers to the commands of leases.
enum SidecarReply {
    /// The three parts of a grant; how long it is valid nobody asks here.
    case lease(token: String, fence: Int64)
    case integer(Int64)
    /// Held by another, or lost.
    case nothing
    case error(String)
}

/// The commands of leases, as the bytes that a client sends.
enum LeaseCommand {
    static func acquire(_ lock: String, ttl: Int, _ options: String...) -> ByteBuffer {
        encoded(["LOCK.ACQUIRE", lock, String(ttl)] + options)
    }

    static func renew(_ lock: String, token: String, ttl: Int) -> ByteBuffer {
        encoded(["LOCK.RENEW", lock, token, String(ttl)])
    }

    static func release(_ lock: String, token: String) -> ByteBuffer {
        encoded(["LOCK.RELEASE", lock, token])
    }

    private static func encoded(_ words: [String]) -> ByteBuffer {
        var bytes = ByteBuffer()
        bytes.writeString("*\(words.count)\r\n")
        for word in words { bytes.writeString("$\(word.utf8.count)\r\n\(word)\r\n") }
        return bytes
    }
}

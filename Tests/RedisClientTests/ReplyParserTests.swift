import Testing

@testable import RedisClient

@Suite("Reply parser: values")
struct ReplyParserTests {
    static let wholeReplies: [(stream: String, reply: RedisReply)] = [
        ("+OK\r\n", .status("OK")),
        ("+\r\n", .status("")),
        ("-ERR no such thing\r\n", .error(RedisError(.server(.error), "ERR no such thing"))),
        ("-READONLY\r\n", .error(RedisError(.server(.readOnly), "READONLY"))),
        (":0\r\n", .integer(0)),
        (":-1\r\n", .integer(-1)),
        (":9223372036854775807\r\n", .integer(.max)),
        (":-9223372036854775808\r\n", .integer(.min)),
        ("$5\r\nhello\r\n", .bulk("hello")),
        ("$0\r\n\r\n", .bulk("")),
        ("$4\r\n\r\n\r\n\r\n", .bulk("\r\n\r\n")),
        ("$-1\r\n", .null),
        ("*-1\r\n", .null),
        ("*0\r\n", .array([])),
        ("*3\r\n:1\r\n$-1\r\n+x\r\n", .array([.integer(1), .null, .status("x")])),
        (
            "*2\r\n*2\r\n$1\r\na\r\n*0\r\n*1\r\n:-7\r\n",
            .array([.array([.bulk("a"), .array([])]), .array([.integer(-7)])])
        ),
        (
            "*2\r\n-WRONGTYPE not a list\r\n:1\r\n",
            .array([.error(RedisError(.server(.wrongType), "WRONGTYPE not a list")), .integer(1)])
        ),
        (
            "*7\r\n*0\r\n*-1\r\n$0\r\n\r\n$-1\r\n+\r\n-\r\n:0\r\n",
            .array([
                .array([]), .null, .bulk(""), .null, .status(""), .error(RedisError(.server(ServerCondition(rawValue: "")), "")),
                .integer(0),
            ])
        ),
    ]

    @Test("Every type of reply is parsed", arguments: wholeReplies)
    func everyTypeOfReplyIsParsed(stream: String, reply: RedisReply) {
        let parsing = Parsing(stream)
        #expect(parsing.replies == [reply])
        #expect(parsing.violation == nil)
    }

    @Test("A reply has the same value wherever it is split", arguments: wholeReplies)
    func replyHasSameValueWhereverItIsSplit(stream: String, reply: RedisReply) {
        let bytes = Array(stream.utf8)
        for position in 0...bytes.count {
            let parsing = Parsing(chunks: [bytes[..<position], bytes[position...]])
            #expect(parsing.replies == [reply], "split after \(position) bytes")
            #expect(parsing.violation == nil, "split after \(position) bytes")
        }
        #expect(Parsing(bytewise: bytes).replies == [reply])
    }

    @Test("Several replies in one chunk are separated")
    func severalRepliesInOneChunkAreSeparated() {
        let stream = Self.wholeReplies.map(\.stream).joined()
        #expect(Parsing(stream).replies == Self.wholeReplies.map(\.reply))
        #expect(Parsing(bytewise: Array(stream.utf8)).replies == Self.wholeReplies.map(\.reply))
    }

    @Test("Half a reply is neither a reply nor an error", arguments: wholeReplies)
    func halfReplyIsNeitherReplyNorError(stream: String, reply: RedisReply) {
        for length in 0..<stream.utf8.count {
            let parsing = Parsing(stream.utf8.prefix(length))
            #expect(parsing.replies.isEmpty)
            #expect(parsing.violation == nil)
        }
    }

    @Test("A bulk string may contain any bytes")
    func bulkStringMayContainAnyBytes() {
        let content = (0...255).map { UInt8($0) }
        #expect(Parsing(Array("$256\r\n".utf8) + content + Array("\r\n".utf8)).replies == [.bulk(content)])
    }

    @Test("A bulk string of a megabyte is assembled from small chunks")
    func largeBulk() {
        let content = [UInt8](repeating: 120, count: 1 << 20)
        let stream = Array("$\(content.count)\r\n".utf8) + content + Array("\r\n".utf8)
        let pieces = stride(from: 0, to: stream.count, by: 4093).map { stream[$0..<min($0 + 4093, stream.count)] }
        #expect(Parsing(chunks: pieces).replies == [.bulk(content)])
    }

    @Test("Invalid UTF-8 in a status is replaced")
    func invalidText() {
        #expect(Parsing([0x2B, 0xFF, 0x0D, 0x0A]).replies == [.status("\u{FFFD}")])
    }
}

/// The parser's result for a stream that arrives in chunks: the replies, and the violation that ended it.
struct Parsing: Equatable {
    var replies: [RedisReply] = []
    var violation: RedisError?

    init(chunks: some Sequence<some Collection<UInt8>>, limits: ReplyLimits = ReplyLimits()) {
        let parser = ReplyParser(limits: limits)
        do {
            for chunk in chunks {
                try Array(chunk).withUnsafeBytes { try parser.feed($0) }
                while let reply = try parser.next() { replies.append(reply) }
            }
        } catch {
            violation = error as? RedisError ?? RedisError(.unexpectedReply, "the parser threw \(error)")
        }
    }

    init(_ stream: some Collection<UInt8>, limits: ReplyLimits = ReplyLimits()) {
        self.init(chunks: [stream], limits: limits)
    }

    init(_ stream: String, limits: ReplyLimits = ReplyLimits()) {
        self.init(Array(stream.utf8), limits: limits)
    }

    /// Parses the same stream one byte at a time.
    init(bytewise stream: [UInt8], limits: ReplyLimits = ReplyLimits()) {
        self.init(chunks: stream.map { [$0] }, limits: limits)
    }
}

extension RedisReply {
    static func bulk(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }
}

internal import InterlockTesting
internal import RedisClient

/// The Redis client reads the same replies no matter how the bytes are split, and rejects those beyond its limits.
enum ReplyProperties {
    /// Limits so small that short inputs exceed them.
    private static let tight = ReplyLimits(bulkLength: 48, arrayLength: 8, depth: 3, lineLength: 32, replyLength: 256)

    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let reading = try checkChunking(of: input, limits: ReplyLimits())
        let tightReading = try checkChunking(of: input, limits: tight)
        try expect(reading.replies.starts(with: tightReading.replies), "\(tightReading) within limits, \(reading) without")
        try expect(
            reading.violation == nil || tightReading.violation != nil,
            "the tight limits accept what the usual limits reject: \(reading)")
        for reply in tightReading.replies {
            let size = try checkLimits(reply, depth: 0)
            try expect(size <= tight.replyLength, "a reply has \(size) bytes: \(reply)")
        }
        for reply in reading.replies {
            let again = try ParsedReplies([reply.wire[...]])
            try expect(again.violation == nil && again.replies == [reply], "\(reply) was written and read as \(again)")
            checkDecoding(reply)
        }
    }

    /// Checks that all chunkings give the same replies. The limits of a chunk are checked before it is parsed, so a
    /// violation may hide replies in its own chunk.
    private static func checkChunking(of input: [UInt8], limits: ReplyLimits) throws(FuzzFinding) -> ParsedReplies {
        let bytewise = try ParsedReplies(Chunking.bytewise.chunks(of: input), limits: limits)
        for chunking in [Chunking.whole, .scattered] {
            let other = try ParsedReplies(chunking.chunks(of: input), limits: limits)
            try expect(
                (other.violation == nil) == (bytewise.violation == nil)
                    && bytewise.replies.starts(with: other.replies)
                    && (bytewise.violation != nil || other.replies.count == bytewise.replies.count),
                "bytewise: \(bytewise); \(chunking): \(other)")
        }
        return bytewise
    }

    /// Checks that a reply is within the limits. Returns the number of bytes in its bulk strings.
    private static func checkLimits(_ reply: RedisReply, depth: Int) throws(FuzzFinding) -> Int {
        switch reply {
        case .integer, .null: return 0
        case .bulk(let bytes):
            try expect(bytes.count <= tight.bulkLength, "a bulk string has \(bytes.count) bytes")
            return bytes.count
        case .status(let text):
            try checkLine(text)
            return 0
        case .error(let error):
            try checkLine(error.message)
            return 0
        case .array(let elements):
            try expect(elements.count <= tight.arrayLength, "an array has \(elements.count) elements")
            try expect(elements.isEmpty || depth < tight.depth, "arrays are nested deeper than \(tight.depth)")
            var size = 0
            for element in elements { size += try checkLimits(element, depth: depth + 1) }
            return size
        }
    }

    private static func checkLine(_ text: String) throws(FuzzFinding) {
        // Each invalid byte is replaced by three bytes.
        try expect(text.utf8.count <= 3 * tight.lineLength, "a line has \(text.utf8.count) bytes")
    }

    /// Checks that every command decodes or rejects any reply without crashing.
    private static func checkDecoding(_ reply: RedisReply) {
        _ = (reply.text, reply.integer, reply.array)
        _ = try? Ping().decode(reply)
        _ = try? Info(section: "server").decode(reply)
        _ = try? Scan(cursor: "0", pattern: "*", count: 10, type: "string").decode(reply)
        _ = try? GetText(key: "key").decode(reply)
        _ = try? RemainingTime(key: "key").decode(reply)
        _ = try? SetFields(key: "key", fields: []).decode(reply)
        _ = try? WaitForReplicas(replicaCount: 1, timeoutMilliseconds: 1).decode(reply)
    }
}

/// The result of the Redis client's parser for a stream that arrives in chunks.
struct ParsedReplies {
    private(set) var replies: [RedisReply] = []
    /// The violation that ended the stream; `nil` if none did.
    private(set) var violation: RedisError?

    init(_ chunks: [ArraySlice<UInt8>], limits: ReplyLimits = ReplyLimits()) throws(FuzzFinding) {
        let parser = ReplyParser(limits: limits)
        do throws(RedisError) {
            for chunk in chunks {
                let outcome = chunk.withUnsafeBytes { bytes in Result { () throws(RedisError) in try parser.feed(bytes) } }
                try outcome.get()
                while let reply = try parser.next() { replies.append(reply) }
            }
        } catch {
            guard error.code == .protocolViolation else { throw FuzzFinding("a stream is refused with \(error.code)") }
            violation = error
        }
    }
}

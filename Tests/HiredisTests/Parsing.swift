@testable import Hiredis

/// What a parser makes of a stream that comes in these chunks: the replies, and what ended it.
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

    /// The same stream, a byte at a time.
    init(bytewise stream: [UInt8], limits: ReplyLimits = ReplyLimits()) {
        self.init(chunks: stream.map { [$0] }, limits: limits)
    }
}

extension RedisReply {
    static func bulk(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }
}

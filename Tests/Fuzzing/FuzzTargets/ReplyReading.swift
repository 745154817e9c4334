internal import Hiredis

/// What the Redis client makes of a stream of replies that comes in chunks.
struct ReplyReading {
    private(set) var replies: [RedisReply] = []
    /// What ended it; `nil`: it may go on.
    private(set) var violation: RedisError?

    init(_ chunks: [ArraySlice<UInt8>], limits: ReplyLimits = ReplyLimits()) throws(FuzzFinding) {
        let parser = ReplyParser(limits: limits)
        do throws(RedisError) {
            for chunk in chunks {
                let fed = chunk.withUnsafeBytes { bytes in Result { () throws(RedisError) in try parser.feed(bytes) } }
                try fed.get()
                while let reply = try parser.next() { replies.append(reply) }
            }
        } catch {
            guard error.code == .protocolViolation else { throw FuzzFinding("a stream is refused with \(error.code)") }
            violation = error
        }
    }
}

internal import CHiredis

/// Parses replies from a stream of bytes that may be split anywhere, with the reader of hiredis. Owns the C object, so
/// use it from one thread at a time.
package final class ReplyParser {
    private let reader: UnsafeMutablePointer<redisReader>
    private var limitChecker: ReplyLimitChecker

    package init(limits: ReplyLimits = ReplyLimits()) {
        guard let reader = redisReaderCreate() else {
            preconditionFailure("hiredis could not allocate its reader: out of memory")
        }
        self.reader = reader
        limitChecker = ReplyLimitChecker(limits: limits)
    }

    deinit {
        redisReaderFree(reader)
    }

    /// Appends bytes from the wire.
    /// - Throws: `protocolViolation`; the stream is then unusable.
    package func feed(_ bytes: UnsafeRawBufferPointer) throws(RedisError) {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return }
        try limitChecker.inspect(bytes)
        guard redisReaderFeed(reader, base.assumingMemoryBound(to: CChar.self), bytes.count) == REDIS_OK else {
            throw violation()
        }
    }

    /// Returns the next complete reply; `nil` if more bytes are needed.
    /// - Throws: `protocolViolation`; the stream is then unusable.
    package func next() throws(RedisError) -> RedisReply? {
        var object: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &object) == REDIS_OK else { throw violation() }
        guard let object else { return nil }
        defer { freeReplyObject(object) }
        return try Self.convert(object.assumingMemoryBound(to: redisReply.self).pointee)
    }

    private func violation() -> RedisError {
        // errstr is a NUL-terminated array of 128 bytes inside the reader.
        let reason = withUnsafeBytes(of: &reader.pointee.errstr) { buffer in
            String(decoding: buffer.prefix { $0 != 0 }, as: UTF8.self)
        }
        return RedisError(.protocolViolation, "hiredis: \(reason)")
    }

    private static func convert(_ reply: redisReply) throws(RedisError) -> RedisReply {
        switch reply.type {
        case REDIS_REPLY_STATUS:
            return .status(String(decoding: bytes(of: reply), as: UTF8.self))
        case REDIS_REPLY_ERROR:
            return .error(RedisError(reply: String(decoding: bytes(of: reply), as: UTF8.self)))
        case REDIS_REPLY_STRING:
            return .bulk([UInt8](bytes(of: reply)))
        case REDIS_REPLY_INTEGER:
            return .integer(reply.integer)
        case REDIS_REPLY_NIL:
            return .null
        case REDIS_REPLY_ARRAY:
            var elements: [RedisReply] = []
            elements.reserveCapacity(Int(reply.elements))
            for index in 0..<Int(reply.elements) {
                guard let element = reply.element[index] else { continue }
                elements.append(try convert(element.pointee))
            }
            return .array(elements)
        default:
            throw RedisError(.protocolViolation, "hiredis returned a reply of type \(reply.type), which is not a RESP2 type")
        }
    }

    /// Returns the bytes of a string reply. They are valid as long as the reply is.
    private static func bytes(of reply: redisReply) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: reply.str, count: Int(reply.len))
    }
}

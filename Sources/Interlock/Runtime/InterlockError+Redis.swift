internal import InterlockCore
internal import RedisClient

extension InterlockError {
    /// Maps an error of the Redis client to the caller's error.
    init(_ error: RedisError) {
        switch error.code {
        case .server(.wrongType):
            self.init(
                .other,
                "Redis: other software uses the key of this name with a different type; choose another name or prefix")
        // One message for all wordings of this error.
        case .server(.readOnly):
            self.init(.unavailable, "Redis rejected the command: the server is a read-only replica")
        case .server(let condition) where condition.isUnavailability:
            self.init(.unavailable, "Redis is unavailable: \(error.message)")
        case _ where error.isUnavailability:
            self.init(.unavailable, "Redis cannot be reached: \(error.message)")
        default:
            self.init(.other, "Redis: \(error.message)")
        }
    }
}

extension RedisError {
    /// Whether the script may have granted a lock before it failed or its reply was lost.
    var mayHaveGranted: Bool {
        switch code {
        // The server did not execute a redirected command.
        case .server(let condition): !condition.isRedirection
        case .unexpectedReply: true
        default: isOutcomeUnknown
        }
    }
}

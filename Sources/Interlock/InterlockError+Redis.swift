internal import Hiredis

extension InterlockError {
    /// What a failed command means to the caller: Redis' own conditions are named, everything else keeps its words.
    init(_ error: RedisError) {
        switch error.code {
        case .server(let condition) where condition.isUnavailability:
            self.init(.unavailable, "Redis cannot serve: \(error.message)")
        case _ where error.isUnavailability:
            self.init(.unavailable, "Redis cannot be reached: \(error.message)")
        default:
            self.init(.other, "Redis: \(error.message)")
        }
    }
}

extension RedisError {
    /// A script may have granted a lock all the same: nobody knows its answer, or it ended half way.
    var mayHaveGranted: Bool {
        switch code {
        case .server, .unexpectedReply: true
        default: isOutcomeUnknown
        }
    }
}

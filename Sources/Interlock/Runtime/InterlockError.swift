internal import Hiredis

/// Why a call to the coordinator has no answer. Held by another, lost and unreachable are never the same error.
public struct InterlockError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on. Later versions may know more codes: a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        package enum Known: Hashable, Sendable { case invalid, unavailable, unknownService, unreplicated, cancelled, other }

        package let known: Known

        /// The call itself is wrong: a name, a number, an unknown permit. The same call will fail again.
        public static let invalid = Code(known: .invalid)
        /// Redis cannot be reached or cannot serve; nothing is known to have happened.
        public static let unavailable = Code(known: .unavailable)
        /// No such service is configured.
        public static let unknownService = Code(known: .unknownService)
        /// A lease was granted, and given up because too few replicas had it; or extended, and too few replicas had that: then what
        /// was promised before stands.
        public static let unreplicated = Code(known: .unreplicated)
        /// The caller gave up.
        public static let cancelled = Code(known: .cancelled)
        /// Anything else, in Redis' own words.
        public static let other = Code(known: .other)

        /// The code's name.
        public var description: String { "\(known)" }
    }

    /// What went wrong.
    public var code: Code
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    /// An error of this code, with a message for people.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

extension InterlockError {
    /// What a failed command means to the caller: Redis' own conditions are named, everything else keeps its words.
    init(_ error: RedisError) {
        switch error.code {
        case .server(.wrongType):
            self.init(
                .other,
                "Redis: the key of that name holds another type: other software uses it; choose another name or prefix")
        // Covers every wording of the error, for a script and for a command.
        case .server(.readOnly):
            self.init(.unavailable, "Redis cannot serve: the server is a replica, which takes no writes")
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
        // A cluster has not begun what it sends elsewhere.
        case .server(let condition): !condition.isRedirection
        case .unexpectedReply: true
        default: isOutcomeUnknown
        }
    }
}

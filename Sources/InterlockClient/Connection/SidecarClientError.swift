internal import Hiredis

/// Why a call to a sidecar has no answer, or which error the sidecar answered with.
public struct SidecarClientError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What happened; a program switches on this. Newer versions may have more codes.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The code's name; of an answer, the first word of the sidecar's error.
        public let rawValue: String

        /// A code by its name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        // What this side finds.

        /// There is no connection, or the client is closed: the call was never sent.
        public static let notConnected = Code(rawValue: "not-connected")
        /// The connection could not be made: refused, not found, TLS failed.
        public static let connectionFailed = Code(rawValue: "connection-failed")
        /// Too many calls are in flight already: this one was never sent.
        public static let overloaded = Code(rawValue: "overloaded")
        /// The call was sent, and no answer came in time. It may have been carried out, or may yet be.
        public static let timedOut = Code(rawValue: "timed-out")
        /// The connection was lost before the answer. The call may have been carried out.
        public static let answerLost = Code(rawValue: "answer-lost")
        /// There was an answer that is no sidecar's: wrong port, another program, another version.
        public static let unreadable = Code(rawValue: "unreadable")
        /// The lease was lost while work went on under it.
        public static let leaseLost = Code(rawValue: "lease-lost")
        /// Another holds the lock, and there was no wait.
        public static let held = Code(rawValue: "held")
        /// Another held the lock until the wait was over.
        public static let waitOver = Code(rawValue: "wait-over")

        // What a sidecar answers, by the first word of its errors.

        /// The call is wrong: a name, a number, an unknown permit. The same call fails again.
        public static let invalid = Code(rawValue: "INVALID")
        /// No such service is configured.
        public static let unknownService = Code(rawValue: "UNKNOWN")
        /// The sidecar cannot use its Redis.
        public static let unavailable = Code(rawValue: "UNAVAILABLE")
        /// A lease was granted, and given up because too few replicas had it in time.
        public static let unreplicated = Code(rawValue: "UNREPLICATED")
        /// The sidecar asks for an API key.
        public static let noKey = Code(rawValue: "NOAUTH")
        /// The sidecar does not know the API key.
        public static let wrongKey = Code(rawValue: "WRONGPASS")
        /// The API key does not have the role that the call needs.
        public static let notPermitted = Code(rawValue: "NOPERM")
        /// Any other error, also that a command is unknown.
        public static let other = Code(rawValue: "ERR")
    }

    /// What happened.
    public var code: Code
    /// For people: what was asked and what was wrong. Of an error that the sidecar answered with, its words behind the first.
    public var message: String
    /// The sidecar answered with this error; otherwise there was no answer that could be understood.
    public var isAnswer: Bool

    package init(_ code: Code, _ message: String, isAnswer: Bool = false) {
        self.code = code
        self.message = message
        self.isAnswer = isAnswer
    }

    /// The message; of an answer, its first word too.
    public var description: String { isAnswer ? "\(code.rawValue) \(message)" : message }

    /// The call may have been carried out although there is no answer.
    public var isOutcomeUnknown: Bool { code == .timedOut || code == .answerLost }

    /// There is no connection: the attempt to make one failed, or none was made.
    public var isConnectionFailure: Bool { code == .notConnected || code == .connectionFailed }
}

extension SidecarClientError {
    /// - Parameter error: of a connection with `configuration`, in the words of a client of Redis.
    init(_ error: RedisError, _ configuration: SidecarClientConfiguration) {
        let address = configuration.address
        switch error.code {
        case .server(let condition):
            let word = condition.rawValue + " "
            let sentence = error.message.firstRange(of: word).map { error.message[$0.upperBound...] } ?? error.message[...]
            self.init(Code(rawValue: condition.rawValue), String(sentence), isAnswer: true)
        case .notConnected:
            self.init(.notConnected, "there is no connection to the sidecar at \(address)")
        case .overloaded:
            self.init(.overloaded, "\(configuration.maximumInFlight) calls to the sidecar at \(address) already await answers")
        case .timedOut:
            self.init(.timedOut, "the sidecar at \(address) did not answer in time; the call may have been carried out")
        case .answerLost:
            self.init(
                .answerLost,
                "the connection to the sidecar at \(address) was lost before the answer; the call may have been carried out")
        case .connectionFailed:
            let name = configuration.redisConfiguration.displayName
            let sidecar = "the sidecar at \(address)"
            let message =
                error.message.contains(name)
                ? error.message.replacing(name, with: sidecar) : "cannot connect to \(sidecar): \(error.message)"
            self.init(.connectionFailed, message)
        case .protocolViolation where error == .httpPeer:
            self.init(
                .unreadable,
                "\(address.port.map { "\($0)" } ?? "\(address)") is the HTTP port; give the RESP door, as \(SidecarAddress.standard)"
            )
        case .protocolViolation where error == .tlsPeer:
            self.init(.unreadable, "\(address) speaks TLS; give it as rediss://\(address)")
        case .protocolViolation, .unexpectedReply:
            self.init(.unreadable, "what \(address) answers is no sidecar's answer: \(error.message)")
        }
    }
}

extension SidecarClientError.Code {
    /// The codes of this version, for a `switch` that has to have them all.
    package enum Known: CaseIterable, Sendable {
        case notConnected, connectionFailed, overloaded, timedOut, answerLost, unreadable, leaseLost, held, waitOver
        case invalid, unknownService, unavailable, unreplicated, noKey, wrongKey, notPermitted, other
    }

    /// `nil`: the code of a newer sidecar.
    package var known: Known? { Self.byCode[self] }

    private static let byCode = Dictionary(uniqueKeysWithValues: Known.allCases.map { (code(of: $0), $0) })

    private static func code(of known: Known) -> Self {
        switch known {
        case .notConnected: notConnected
        case .connectionFailed: connectionFailed
        case .overloaded: overloaded
        case .timedOut: timedOut
        case .answerLost: answerLost
        case .unreadable: unreadable
        case .leaseLost: leaseLost
        case .held: held
        case .waitOver: waitOver
        case .invalid: invalid
        case .unknownService: unknownService
        case .unavailable: unavailable
        case .unreplicated: unreplicated
        case .noKey: noKey
        case .wrongKey: wrongKey
        case .notPermitted: notPermitted
        case .other: other
        }
    }
}

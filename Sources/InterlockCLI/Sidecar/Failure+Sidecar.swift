import Hiredis

extension Failure {
    /// No connection: what to do about it.
    init(_ error: RedisError, connectingTo address: SidecarAddress) {
        switch error.code {
        case .server(.noAuthentication):
            self.init("the sidecar at \(address) wants an API key: put one in INTERLOCK_API_KEY", exitCode: .refused)
        case .server(.wrongPassword):
            self.init("the sidecar at \(address) does not know the API key in INTERLOCK_API_KEY", exitCode: .refused)
        case .server:
            // The message is the peer's and holds no secret.
            self.init("\(error.message); see INTERLOCK_API_KEY and --sidecar", exitCode: .refused)
        case .protocolViolation, .unexpectedReply:
            self.init(
                "what answers at \(address) is no sidecar's RESP door: name one with --sidecar", exitCode: .unavailable)
        case .notConnected, .overloaded, .timedOut, .answerLost, .connectionFailed:
            if case .secured = address {
                self.init(
                    "no connection to the sidecar at \(address): is it there, does it speak TLS (listen.tls), and is its certificate for "
                        + "this host name and vouched for by --ca? (\(error.message))",
                    exitCode: .unavailable)
                return
            }
            self.init(
                "no sidecar answers at \(address): start one with `interlock serve`, or name it with --sidecar",
                exitCode: .unavailable)
        }
    }

    /// A command without an answer that says yes or no.
    init(_ error: RedisError, sending purpose: String, to address: SidecarAddress) {
        switch error.code {
        case .server(let condition):
            self.init(condition, error.message, sending: purpose, to: address)
        case .timedOut, .answerLost:
            self.init(
                "\(purpose): the sidecar at \(address) gave no answer; what was asked may be done all the same. See "
                    + "`interlock status`, and ask again",
                exitCode: .unavailable)
        case .unexpectedReply, .protocolViolation:
            self.init(
                "\(purpose): the answer from \(address) cannot be understood: is it a sidecar, and of this version? See "
                    + "`interlock status`",
                exitCode: .refused)
        case .notConnected, .overloaded, .connectionFailed:
            self.init(
                "\(purpose): the connection to the sidecar at \(address) is lost: is it still running?",
                exitCode: .unavailable)
        }
    }

    private init(_ condition: ServerCondition, _ message: String, sending purpose: String, to address: SidecarAddress) {
        // The first word is for programs.
        let sentence = message.drop { $0 != " " }.drop { $0 == " " }
        switch condition {
        case .unavailable:
            self.init("\(purpose): the sidecar at \(address) cannot use its Redis: \(sentence)", exitCode: .unavailable)
        case .unreplicated,
            .error where !sentence.hasPrefix("unknown command"):
            self.init("\(purpose): the sidecar at \(address) could not do it: \(sentence)", exitCode: .unavailable)
        case .noAuthentication:
            self.init("\(purpose): \(sentence); put the key in INTERLOCK_API_KEY", exitCode: .refused)
        case .noPermission:
            self.init("\(purpose): \(sentence); put such a key in INTERLOCK_API_KEY", exitCode: .refused)
        case .error:
            self.init(
                "\(purpose): what answers at \(address) has no such command: is it a sidecar, and of this version?",
                exitCode: .refused)
        default:
            self.init("\(purpose): \(sentence)", exitCode: .refused)
        }
    }
}

extension ServerCondition {
    /// A sidecar that cannot use its Redis.
    fileprivate static let unavailable = ServerCondition(rawValue: "UNAVAILABLE")
    /// Too few replicas had a lease in time.
    fileprivate static let unreplicated = ServerCondition(rawValue: "UNREPLICATED")
}

import InterlockClient
import InterlockCommandLine

extension Failure {
    /// Describes a failed attempt to connect or log in.
    init(_ error: InterlockError, connectingTo address: SidecarAddress) {
        let status = ExitStatus(error)
        switch error.code {
        case .noKey:
            self.init("the sidecar at \(address) asks for an API key: put one in INTERLOCK_API_KEY", status)
        case .wrongKey:
            self.init("the sidecar at \(address) does not know the API key in INTERLOCK_API_KEY", status)
        case _ where error.isAnswer:
            // The message comes from the peer and contains no secret.
            self.init("\(error); see INTERLOCK_API_KEY and --sidecar", status)
        case .unreadable:
            self.init("\(error.message); name the RESP door with --sidecar", .notSidecar)
        default:
            if case .tls = address {
                self.init(
                    "no connection to the sidecar at \(address): is it running, does it speak TLS (listen.tls), and is its "
                        + "certificate for this host name and signed by --ca? (\(error.message))",
                    status)
                return
            }
            self.init(
                "no sidecar answers at \(address): start one with `interlock serve`, or name it with --sidecar (\(error.message))",
                status)
        }
    }

    /// Describes a call that failed or got no answer.
    init(_ error: InterlockError, asking purpose: String, at address: SidecarAddress) {
        let status = ExitStatus(error)
        switch error.code {
        case .unavailable:
            self.init("\(purpose): the sidecar at \(address) cannot use its Redis: \(error.message)", status)
        case .other where error.isUnknownCommand:
            self.init("\(purpose): \(address) has no such command: is it a sidecar, and of this version?", status)
        case .unreplicated, .other:
            self.init("\(purpose): the sidecar at \(address) failed: \(error.message)", status)
        case .noKey:
            self.init("\(purpose): \(error.message); put the key in INTERLOCK_API_KEY", status)
        case .notPermitted:
            self.init("\(purpose): \(error.message); put such a key in INTERLOCK_API_KEY", status)
        case _ where error.isAnswer:
            self.init("\(purpose): \(error.message)", status)
        case .answerTimedOut, .answerLost:
            self.init(
                "\(purpose): the sidecar at \(address) did not answer; the request may have been carried out. See "
                    + "`interlock status`, then try again",
                status)
        case .unreadable:
            self.init(
                "\(purpose): the answer from \(address) cannot be understood: is it a sidecar, and of this version? See "
                    + "`interlock status`",
                status)
        default:
            self.init("\(purpose): the connection to the sidecar at \(address) is lost: is it still running?", status)
        }
    }
}

extension ExitStatus {
    /// Returns the exit status for an error of a sidecar, or for a missing answer.
    init(_ error: InterlockError) {
        switch error.code {
        case .invalid, .unknownService: self = .invalid
        case .noKey, .wrongKey, .notPermitted: self = .denied
        case .leaseLost, .held, .waitTimedOut: self = .no
        case .unreadable: self = .otherVersion
        // The default covers errors that only a newer sidecar reports.
        default: self = error.isUnknownCommand ? .otherVersion : .unavailable
        }
    }
}

extension InterlockError {
    /// Whether the peer does not know the command, because it is an older sidecar or not a sidecar.
    fileprivate var isUnknownCommand: Bool { code == .other && message.hasPrefix("unknown command") }
}

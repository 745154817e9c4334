import InterlockClient

extension Failure {
    /// There is no connection.
    init(_ error: SidecarClientError, connectingTo address: SidecarAddress) {
        switch error.code {
        case .noKey:
            self.init("the sidecar at \(address) asks for an API key: put one in INTERLOCK_API_KEY", exitCode: .refused)
        case .wrongKey:
            self.init("the sidecar at \(address) does not know the API key in INTERLOCK_API_KEY", exitCode: .refused)
        case _ where error.isAnswer:
            // The message is the peer's and holds no secret.
            self.init("\(error); see INTERLOCK_API_KEY and --sidecar", exitCode: .refused)
        case .unreadable:
            self.init("\(address) is not a sidecar's RESP door: name one with --sidecar", exitCode: .unavailable)
        default:
            if case .tls = address {
                self.init(
                    "no connection to the sidecar at \(address): is it running, does it speak TLS (listen.tls), and is its "
                        + "certificate for this host name and signed by --ca? (\(error.message))",
                    exitCode: .unavailable)
                return
            }
            self.init(
                "no sidecar answers at \(address): start one with `interlock serve`, or name it with --sidecar",
                exitCode: .unavailable)
        }
    }

    /// A call that was not answered by yes or no.
    init(_ error: SidecarClientError, asking purpose: String, at address: SidecarAddress) {
        switch error.code {
        case .unavailable:
            self.init("\(purpose): the sidecar at \(address) cannot use its Redis: \(error.message)", exitCode: .unavailable)
        case .other where error.message.hasPrefix("unknown command"):
            self.init(
                "\(purpose): \(address) has no such command: is it a sidecar, and of this version?", exitCode: .refused)
        case .unreplicated, .other:
            self.init("\(purpose): the sidecar at \(address) failed: \(error.message)", exitCode: .unavailable)
        case .noKey:
            self.init("\(purpose): \(error.message); put the key in INTERLOCK_API_KEY", exitCode: .refused)
        case .notPermitted:
            self.init("\(purpose): \(error.message); put such a key in INTERLOCK_API_KEY", exitCode: .refused)
        case _ where error.isAnswer:
            self.init("\(purpose): \(error.message)", exitCode: .refused)
        case .timedOut, .answerLost:
            self.init(
                "\(purpose): the sidecar at \(address) did not answer; the request may have been carried out. See "
                    + "`interlock status`, then try again",
                exitCode: .unavailable)
        case .unreadable:
            self.init(
                "\(purpose): the answer from \(address) cannot be understood: is it a sidecar, and of this version? See "
                    + "`interlock status`",
                exitCode: .refused)
        default:
            self.init(
                "\(purpose): the connection to the sidecar at \(address) is lost: is it still running?",
                exitCode: .unavailable)
        }
    }
}

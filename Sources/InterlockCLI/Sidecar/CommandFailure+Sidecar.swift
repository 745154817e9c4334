import InterlockClient
import InterlockCommandLine

extension CommandFailure {
    /// Describes a failed attempt to connect or log in.
    init(_ error: InterlockError, connectingTo address: SidecarAddress) {
        let status = ExitStatus(error)
        switch error.code {
        case .missingAPIKey:
            self.init("the sidecar at \(address) requires an API key: set INTERLOCK_API_KEY", status)
        case .invalidAPIKey:
            self.init("the sidecar at \(address) rejected the API key in INTERLOCK_API_KEY", status)
        case .other where error.isWithoutKeys:
            self.init("\(address) has no API keys: unset INTERLOCK_API_KEY, or check --sidecar", .denied)
        case _ where error.isFromSidecar:
            // The message is the peer's own text, which contains no secret.
            self.init("\(error); check INTERLOCK_API_KEY and --sidecar", status)
        case .invalidResponse:
            // The message already states the remedy.
            self.init(error.message, .notSidecar)
        default:
            if case .tls = address {
                self.init(
                    "cannot connect to the sidecar at \(address): is it running, does it use TLS (listen.tls), is its "
                        + "certificate valid for this host name, and is it signed by --ca? (\(error.message))",
                    status)
                return
            }
            self.init(
                "no sidecar answers at \(address): start one with `interlock serve`, or set --sidecar (\(error.message))",
                status)
        }
    }

    /// Describes a call that failed or got no answer.
    init(_ error: InterlockError, performing purpose: String, at address: SidecarAddress) {
        let status = ExitStatus(error)
        switch error.code {
        case .unavailable:
            self.init("\(purpose): the sidecar at \(address) cannot use its Redis: \(error.message)", status)
        case .other where error.isUnknownCommand:
            self.init("\(purpose): \(address) does not know this command: is it a sidecar of this version?", status)
        case .unreplicated, .other:
            self.init("\(purpose): the sidecar at \(address) failed: \(error.message)", status)
        case .missingAPIKey:
            self.init("\(purpose): \(error.message); set INTERLOCK_API_KEY", status)
        case .permissionDenied:
            self.init("\(purpose): \(error.message); set INTERLOCK_API_KEY to one that has it", status)
        case _ where error.isFromSidecar:
            self.init("\(purpose): \(error.message)", status)
        case .responseTimedOut, .responseLost:
            self.init(
                "\(purpose): the sidecar at \(address) did not answer, and may have executed the request; check "
                    + "`interlock status`, then retry",
                status)
        case .invalidResponse:
            self.init(
                "\(purpose): cannot understand the answer from \(address): is it a sidecar of this version? See "
                    + "`interlock status`",
                status)
        default:
            self.init("\(purpose): lost the connection to the sidecar at \(address): is it still running?", status)
        }
    }
}

extension ExitStatus {
    /// Creates the exit status for an error that a sidecar reports, or for a missing answer.
    init(_ error: InterlockError) {
        switch error.code {
        case .invalid, .unknownService: self = .invalid
        case .missingAPIKey, .invalidAPIKey, .permissionDenied: self = .denied
        case .leaseLost, .held, .waitTimedOut: self = .no
        case .invalidResponse: self = .versionMismatch
        // The default covers errors that only a newer sidecar reports.
        default: self = error.isUnknownCommand ? .versionMismatch : .unavailable
        }
    }
}

extension InterlockError {
    /// Whether the peer does not know the command, because it is an older sidecar or not a sidecar.
    fileprivate var isUnknownCommand: Bool { code == .other && message.hasPrefix("unknown command") }

    /// Whether the peer rejects a login because it has no keys. The peer uses the error text of Redis.
    fileprivate var isWithoutKeys: Bool { message.hasPrefix("AUTH <password> called without any password") }
}

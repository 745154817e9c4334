/// The reasons why a command can fail, which `docs/reference/command-line.md` documents.
package enum ExitStatus: CaseIterable, Sendable {
    /// The answer is no: another client holds the lock, the call is limited, the lease is lost, or something is not
    /// found, so that a later attempt may succeed; or a check found mistakes, or a file could not be read or written.
    case no
    /// The command line or the configuration cannot be used. No request was sent.
    case usage
    /// The request was rejected as invalid: a name, a number, or an unknown service.
    case invalid
    /// The sidecar or its Redis is unreachable or cannot serve now.
    case unavailable
    /// The server at the address is not a sidecar's RESP API.
    case notSidecar
    /// The sidecar has a different version: it does not know the command, or its answer cannot be read.
    case versionMismatch
    /// `run`: the lease was lost while the command ran.
    case leaseLost
    /// `run`: another client holds the lock.
    case notAcquired
    /// The API key is missing, wrong, or lacks the role.
    case denied
    /// `run`: the program exists but cannot be executed.
    case notExecutable
    /// `run`: there is no such program.
    case notFound

    /// The exit code. This is the only table of exit codes.
    package var code: Int32 {
        switch self {
        case .no: 1
        case .usage: 64
        case .invalid: 65
        case .unavailable, .notSidecar, .versionMismatch: 69
        case .leaseLost: 74
        case .notAcquired: 75
        case .denied: 77
        case .notExecutable: 126
        case .notFound: 127
        }
    }

    /// Returns the exit code of versions before 0.2.0, which is supported for one more version. Scripts request it with
    /// `INTERLOCK_EXIT_CODES=1`.
    /// - Parameter isRunCommand: whether the command is `interlock run`, which had one code for all requests that a
    ///   sidecar rejects.
    package func formerCode(isRunCommand: Bool) -> Int32 {
        switch self {
        case .invalid, .denied, .versionMismatch: isRunCommand ? ExitStatus.unavailable.code : ExitStatus.no.code
        case .no, .usage, .unavailable, .notSidecar, .leaseLost, .notAcquired, .notExecutable, .notFound: code
        }
    }
}

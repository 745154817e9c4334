/// How a command ends that did not do what it was asked for. People find them in `docs/reference/command-line.md`.
package enum ExitStatus: CaseIterable, Sendable {
    /// The answer is no: held by another, limited, lost, not there, mistakes found. Another try may have another answer.
    case no
    /// The command line or the configuration cannot be used. Nothing was asked.
    case usage
    /// Refused as invalid: a name, a number, an unknown service.
    case invalid
    /// The sidecar or its Redis cannot be reached, or cannot serve now.
    case unavailable
    /// The server at the address is not a sidecar's RESP API.
    case notSidecar
    /// The sidecar does not know the command, or its answer cannot be read: it is of another version.
    case otherVersion
    /// `run`: the lease was lost while the command ran.
    case leaseLost
    /// `run`: another holds the lock.
    case notAcquired
    /// No API key, a wrong one, or one without the role.
    case denied
    /// `run`: the program is there and cannot be executed.
    case notExecutable
    /// `run`: there is no such program.
    case notFound

    /// The only table of exit codes.
    package var code: Int32 {
        switch self {
        case .no: 1
        case .usage: 64
        case .invalid: 65
        case .unavailable, .notSidecar, .otherVersion: 69
        case .leaseLost: 74
        case .notAcquired: 75
        case .denied: 77
        case .notExecutable: 126
        case .notFound: 127
        }
    }

    /// The code before 0.2.0, for one version: scripts ask for it with `INTERLOCK_EXIT_CODES=1`.
    /// - Parameter isOfRun: `interlock run` had one code for all that a sidecar refuses.
    package func formerCode(isOfRun: Bool) -> Int32 {
        switch self {
        case .invalid, .denied, .otherVersion: isOfRun ? ExitStatus.unavailable.code : ExitStatus.no.code
        case .no, .usage, .unavailable, .notSidecar, .leaseLost, .notAcquired, .notExecutable, .notFound: code
        }
    }
}

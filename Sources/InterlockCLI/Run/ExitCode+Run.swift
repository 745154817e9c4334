import ArgumentParser
import Subprocess

extension ExitCode {
    /// The lease was lost while the command ran.
    static let leaseLost = ExitCode(74)
    /// The lock was not had: another holds it.
    static let notHad = ExitCode(75)
    /// The program is there and cannot be executed.
    static let notExecutable = ExitCode(126)
    /// There is no such program.
    static let notFound = ExitCode(127)

    /// As shells tell that a signal ended a process.
    static func ended(bySignal signal: Int32) -> ExitCode { ExitCode(128 + signal) }

    /// As shells tell how a process ended.
    init(_ status: TerminationStatus) {
        switch status {
        case .exited(let code): self = ExitCode(code)
        case .signaled(let signal): self = .ended(bySignal: signal)
        }
    }
}

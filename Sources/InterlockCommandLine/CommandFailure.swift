package import ArgumentParser

/// A human-readable error message, with an exit status for programs.
package struct CommandFailure: Error, CustomStringConvertible {
    package let description: String
    package let status: ExitStatus

    package init(_ description: String, _ status: ExitStatus) {
        self.description = description
        self.status = status
    }
}

extension ExitCode {
    package init(_ status: ExitStatus) {
        self.init(status.code)
    }

    /// Creates the exit code for a status, or the code of earlier versions if the environment requests that.
    package init(_ status: ExitStatus, isRunCommand: Bool) {
        let usesFormerCodes = ProcessEnvironment.variables["INTERLOCK_EXIT_CODES"] == "1"
        self.init(usesFormerCodes ? status.formerCode(isRunCommand: isRunCommand) : status.code)
    }
}

package import ArgumentParser

/// An error for people, and what it means for programs.
package struct Failure: Error, CustomStringConvertible {
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

    /// The code to end with: the former one where the environment asks for it.
    package init(_ status: ExitStatus, isOfRun: Bool) {
        let wantsFormer = ProcessEnvironment.variables["INTERLOCK_EXIT_CODES"] == "1"
        self.init(wantsFormer ? status.formerCode(isOfRun: isOfRun) : status.code)
    }
}

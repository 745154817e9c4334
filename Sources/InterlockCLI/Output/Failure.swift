import ArgumentParser

/// An error for people, and the exit code that tells programs the same.
struct Failure: Error, CustomStringConvertible {
    let description: String
    let exitCode: ExitCode

    init(_ description: String, exitCode: ExitCode) {
        self.description = description
        self.exitCode = exitCode
    }
}

extension ExitCode {
    /// Refused, or held by another.
    static let refused = ExitCode(1)
    /// The command line or the configuration cannot be used.
    static let usage = ExitCode(64)
    /// The sidecar or its Redis cannot be reached.
    static let unavailable = ExitCode(69)
}

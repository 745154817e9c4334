/// A configuration was refused: every mistake that was found in it.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// At least one; those of the file in the order of its lines.
    package var problems: [ConfigurationProblem]

    package init(problems: [ConfigurationProblem]) {
        self.problems = problems
    }

    /// One problem a line.
    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

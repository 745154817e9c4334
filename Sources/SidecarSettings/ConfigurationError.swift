/// The rejection of a configuration, with every mistake found in it.
package struct ConfigurationError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The mistakes, at least one. Those of the file are in the order of its lines.
    package var problems: [ConfigurationProblem]

    package init(problems: [ConfigurationProblem]) {
        self.problems = problems
    }

    /// The problems, one per line.
    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}

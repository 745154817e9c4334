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

/// One mistake in a configuration: where it is, and what was expected there.
package struct ConfigurationProblem: Hashable, Sendable, CustomStringConvertible {
    /// Where a setting came from.
    package enum Place: Hashable, Sendable {
        /// A file, and the line counted from 1; `nil` when the mistake is the file itself.
        case file(String, line: Int?)
        /// An environment variable.
        case variable(String)
        /// A flag of the command line.
        case flag(String)
    }

    package var place: Place
    /// The key, such as `services.catalog.limits[0].limit`; `nil` when the place says it all.
    package var path: String?
    /// What was expected, and what was there instead. Never holds a secret.
    package var message: String

    /// `interlock.yaml:7: services.catalog.limits[0].limit: expected a whole number of 1 or more, got "ten"`
    package var description: String {
        let place =
            switch place {
            case .file(let name, let line?): "\(name):\(line)"
            case .file(let name, nil), .variable(let name), .flag(let name): name
            }
        return [place, path, message].compactMap(\.self).joined(separator: ": ")
    }
}

/// What the reading of one configuration has brought up so far: mistakes, warnings, and where listeners were named.
///
/// A class, because every value of the file reports to the same findings. It lives within one call of `load`.
final class ConfigurationFindings {
    let fileName: String
    /// Whether secrets are looked for, in variables and files; a check elsewhere has none.
    let readsSecrets: Bool
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [String] = []
    /// Variables of the environment that the file names.
    var variables: Set<String> = []
    /// Where a setting that later rules look at was given, by its path.
    var places: [String: ConfigurationProblem.Place] = [:]

    init(fileName: String, readsSecrets: Bool) {
        self.fileName = fileName
        self.readsSecrets = readsSecrets
    }

    var wholeFile: ConfigurationProblem.Place { .file(fileName, line: nil) }

    /// The file's problems by their line, then those of files that it names, of the environment and of the flags.
    var problemsInOrder: [ConfigurationProblem] {
        func rank(_ problem: ConfigurationProblem, _ offset: Int) -> (source: Int, line: Int, offset: Int) {
            switch problem.place {
            case .file(fileName, let line): (0, line ?? 0, offset)
            case .file(_, let line): (1, line ?? 0, offset)
            case .variable, .flag: (2, 0, offset)
            }
        }
        return problems.enumerated()
            .sorted { rank($0.element, $0.offset) < rank($1.element, $1.offset) }
            .map(\.element)
    }

    func refuse(at place: ConfigurationProblem.Place, path: String?, _ message: String) {
        problems.append(ConfigurationProblem(place: place, path: path, message: message))
    }

    /// Takes over what was found in another file that this one names.
    func adopt(_ other: ConfigurationFindings) {
        problems += other.problems
        warnings += other.warnings
    }

    func adopt(_ error: ConfigurationError) { problems += error.problems }

    func warn(_ sentence: String) {
        warnings.append(sentence)
    }

    /// O(n) in problems.
    func hasProblem(under path: String) -> Bool {
        problems.contains { $0.path == path || $0.path?.hasPrefix(path + ".") == true }
    }
}

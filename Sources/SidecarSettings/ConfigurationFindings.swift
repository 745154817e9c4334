/// The findings from reading one configuration: mistakes, warnings, and the locations of settings that later rules
/// check.
///
/// A class, because all values of the file share one instance, which lasts for one call of `load`.
package final class ConfigurationFindings {
    let fileName: String
    /// Whether secrets in variables and files are read. A check on another host cannot read them.
    let readsSecrets: Bool
    package private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [String] = []
    /// The environment variables that the file names.
    var variables: Set<String> = []
    /// The locations of settings that later rules check, by path.
    var locations: [String: ConfigurationProblem.Location] = [:]

    package init(fileName: String, readsSecrets: Bool) {
        self.fileName = fileName
        self.readsSecrets = readsSecrets
    }

    /// The location of a mistake that concerns the whole file.
    package var wholeFile: ConfigurationProblem.Location { .file(fileName, line: nil) }

    /// The problems of the file by line, then those of the files that it names, then those of the environment and
    /// flags.
    package var problemsInOrder: [ConfigurationProblem] {
        func rank(_ problem: ConfigurationProblem, _ offset: Int) -> (source: Int, line: Int, offset: Int) {
            switch problem.location {
            case .file(fileName, let line): (0, line ?? 0, offset)
            case .file(_, let line): (1, line ?? 0, offset)
            case .variable, .flag: (2, 0, offset)
            }
        }
        return problems.enumerated()
            .sorted { rank($0.element, $0.offset) < rank($1.element, $1.offset) }
            .map(\.element)
    }

    /// Adds a mistake.
    package func reject(at location: ConfigurationProblem.Location, path: String?, _ message: String) {
        problems.append(ConfigurationProblem(location: location, path: path, message: message))
    }

    /// Adds the findings of a file that this one names.
    func merge(_ other: ConfigurationFindings) {
        problems += other.problems
        warnings += other.warnings
    }

    func merge(_ error: ConfigurationError) { problems += error.problems }

    /// Adds a warning.
    func warn(_ sentence: String) {
        warnings.append(sentence)
    }

    /// Returns whether there is a problem at this path or below it. O(n) in the number of problems.
    func hasProblem(under path: String) -> Bool {
        problems.contains { $0.path == path || $0.path?.hasPrefix(path + ".") == true }
    }
}

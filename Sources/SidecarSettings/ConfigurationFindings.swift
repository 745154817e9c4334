/// What the reading of one configuration has brought up so far: mistakes, warnings, and where listeners were named.
///
/// A class, because every value of the file reports to the same findings. It lives within one call of `load`.
package final class ConfigurationFindings {
    let fileName: String
    /// Whether secrets are looked for, in variables and files; a check elsewhere has none.
    let readsSecrets: Bool
    package private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [String] = []
    /// Variables of the environment that the file names.
    var variables: Set<String> = []
    /// Where a setting that later rules look at was given, by its path.
    var places: [String: ConfigurationProblem.Place] = [:]

    package init(fileName: String, readsSecrets: Bool) {
        self.fileName = fileName
        self.readsSecrets = readsSecrets
    }

    package var wholeFile: ConfigurationProblem.Place { .file(fileName, line: nil) }

    /// The file's problems by their line, then those of files that it names, of the environment and of the flags.
    package var problemsInOrder: [ConfigurationProblem] {
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

    package func refuse(at place: ConfigurationProblem.Place, path: String?, _ message: String) {
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

/// What the reading of one configuration has brought up so far: mistakes, warnings, and where listeners were named.
///
/// A class, because every value of the file reports to the same findings. It lives within one call of `load`.
final class ConfigurationFindings {
    let fileName: String
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [String] = []
    /// Variables of the environment that the file names.
    var variables: Set<String> = []
    /// Where a setting that later rules look at was given, by its path.
    var places: [String: ConfigurationProblem.Place] = [:]

    init(fileName: String) {
        self.fileName = fileName
    }

    var wholeFile: ConfigurationProblem.Place { .file(fileName, line: nil) }

    /// The file's problems by their line, then those of the environment and the flags.
    var problemsInOrder: [ConfigurationProblem] {
        func rank(_ problem: ConfigurationProblem) -> Int {
            if case .file(_, let line) = problem.place { line ?? 0 } else { .max }
        }
        return problems.enumerated()
            .sorted { (rank($0.element), $0.offset) < (rank($1.element), $1.offset) }
            .map(\.element)
    }

    func refuse(at place: ConfigurationProblem.Place, path: String?, _ message: String) {
        problems.append(ConfigurationProblem(place: place, path: path, message: message))
    }

    func warn(_ sentence: String) {
        warnings.append(sentence)
    }

    /// O(n) in problems.
    func hasProblem(under path: String) -> Bool {
        problems.contains { $0.path == path || $0.path?.hasPrefix(path + ".") == true }
    }
}

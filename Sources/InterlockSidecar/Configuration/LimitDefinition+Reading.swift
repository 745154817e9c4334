import InterlockCore

extension LimitDefinition {
    private static let limits: ClosedRange<Int64> = 1...LimitDefinition.largestLimit
    private static let windows: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    private static let bursts: ClosedRange<Int64> = 0...LimitDefinition.largestBurst

    private enum AlgorithmName: String, CaseIterable {
        case fixed, sliding, gcra
    }

    /// Reads `services.NAME.limits`; those that were refused are left out.
    static func list(_ value: ConfigurationValue) -> [LimitDefinition] {
        var limits: [LimitDefinition] = []
        for item in value.list() {
            guard let limit = LimitDefinition(reading: item) else { continue }
            if limits.contains(where: { ExactText($0.name) == ExactText(limit.name) }) {
                item.refuse("the name \"\(limit.name)\" is given to more than one limit of this service; give each its own name")
            } else {
                limits.append(limit)
            }
        }
        return limits
    }

    private init?(reading value: ConfigurationValue) {
        var limit: Int64?
        var window: Duration?
        var name: String?
        var algorithm: LimitAlgorithm?
        var isPerSubject = false
        var isShadow = false
        value.section { section in
            limit = section.required("limit", "a whole number of 1 or more") { $0.wholeNumber(in: Self.limits) }
            window = section.required("per", "a duration such as 1s") { $0.duration(in: Self.windows) }
            section.read("name", into: &name) { $0.parsed(by: Self.checkedName) }
            section.read("per_subject", into: &isPerSubject) { $0.flag() }
            section.read("shadow", into: &isShadow) { $0.flag() }
            algorithm = Self.algorithm(section)
            guard let limit, let window, let algorithm else { return }
            if let wrong = Self.violation(limit: limit, window: window, algorithm: algorithm) { section.whole.refuse(wrong) }
        }
        guard let limit, let window, let algorithm else { return nil }
        self.init(
            name: name ?? Self.defaultName(window: window, isPerSubject: isPerSubject), limit: limit, window: window,
            algorithm: algorithm, isPerSubject: isPerSubject, isShadow: isShadow)
    }

    /// Reads `algorithm`, by default `fixed`, and `burst`, by default 0.
    private static func algorithm(_ section: ConfigurationSection) -> LimitAlgorithm? {
        var name: AlgorithmName? = .fixed
        section.read("algorithm") { name = $0.parsed(by: AlgorithmName.init(parsing:)) }
        guard name == .gcra else {
            if name != nil { section.refuse(["burst"], "goes with the algorithm gcra only") } else { _ = section.value("burst") }
            return name.map { $0 == .sliding ? .sliding : .fixed }
        }
        var burst: Int64 = 0
        section.read("burst", into: &burst) { $0.wholeNumber(in: bursts) }
        return .gcra(burst: burst)
    }

    /// What cannot be counted exactly.
    private static func violation(limit: Int64, window: Duration, algorithm: LimitAlgorithm) -> String? {
        switch algorithm {
        case .fixed:
            return nil
        case .sliding:
            guard limit > largestSlidingLimit else { return nil }
            return "expected a limit of \(largestSlidingLimit) or less with the algorithm sliding, which remembers each grant "
                + "for its window, got \(limit); use fixed or gcra"
        case .gcra(let burst):
            guard limit <= largestSmoothLimit else {
                return "expected a limit of \(largestSmoothLimit) or less with the algorithm gcra, got \(limit)"
            }
            let definition = LimitDefinition(name: "", limit: limit, window: window, algorithm: algorithm)
            guard !definition.cellRate.isExact else { return nil }
            return "expected a burst that comes back within a hundred years, got \(burst)"
        }
    }

    /// A name ends in its key where the algorithm's suffix or the subject begins.
    private static func checkedName(_ text: String) throws(ConfigurationExpectation) -> String {
        let name = try ConfigurationText.checkedName(text)
        for scalar in forbiddenInNames where name.unicodeScalars.contains(scalar) {
            throw ConfigurationExpectation("a name without \"\(scalar)\"")
        }
        return name
    }

    /// The window in its shortest spelling: `1s`, `500ms`, `1d`; `1s-subject` for a limit of each subject.
    private static func defaultName(window: Duration, isPerSubject: Bool) -> String {
        DurationText.shortest(window) + (isPerSubject ? "-subject" : "")
    }
}

extension LimitPolicy {
    private static let pauses: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    private static let patiences: ClosedRange<Duration> = .zero ... .seconds(86_400)
    private static let waitingCounts = 0...100_000

    /// Reads `services.NAME.on_limit`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("action", into: &action) { $0.parsed(by: Action.init(parsing:)) }
            section.read("pause", into: &pause) { $0.durationRange(in: Self.pauses) }
            section.read("max_waiting", into: &maximumWaiting) { $0.wholeNumber(in: Self.waitingCounts) }
            section.read("patience", into: &patience) { $0.duration(in: Self.patiences) }
        }
    }
}

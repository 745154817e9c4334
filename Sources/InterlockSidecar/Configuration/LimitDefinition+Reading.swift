import InterlockCore

extension LimitDefinition {
    private static let limits: ClosedRange<Int64> = 1...1_000_000_000_000_000
    private static let windows: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)

    /// Reads `services.NAME.limits`; those that were refused are left out.
    static func list(_ value: ConfigurationValue) -> [LimitDefinition] {
        var limits: [LimitDefinition] = []
        for item in value.list() {
            guard let limit = LimitDefinition(reading: item) else { continue }
            if limits.contains(where: { $0.name == limit.name }) {
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
        var isPerSubject = false
        value.section { section in
            limit = section.required("limit", "a whole number of 1 or more") { $0.wholeNumber(in: Self.limits) }
            window = section.required("per", "a duration such as 1s") { $0.duration(in: Self.windows) }
            section.read("name", into: &name) { $0.parsed(by: ConfigurationText.checkedName) }
            section.read("per_subject", into: &isPerSubject) { $0.flag() }
            section.read("algorithm") { _ = $0.parsed(by: Self.checkedAlgorithm) }
            section.refuse(["burst"], "goes with the algorithm gcra, which is not supported by this version")
        }
        guard let limit, let window else { return nil }
        self.init(
            name: name ?? Self.defaultName(window: window, isPerSubject: isPerSubject),
            limit: limit,
            window: window,
            isPerSubject: isPerSubject
        )
    }

    /// The window in its shortest spelling: `1s`, `500ms`, `1d`; `1s-subject` for a limit of each subject.
    private static func defaultName(window: Duration, isPerSubject: Bool) -> String {
        DurationText.shortest(window) + (isPerSubject ? "-subject" : "")
    }

    private static func checkedAlgorithm(_ text: String) throws(ConfigurationExpectation) -> String {
        let onlyOne = "fixed"
        switch text {
        case onlyOne: return text
        case "sliding", "gcra": throw ConfigurationExpectation("\(onlyOne) (\(text) is not supported by this version)")
        default: throw ConfigurationExpectation(onlyOne)
        }
    }
}

import InterlockCore

extension LimitDefinition {
    /// `limits[].subject`: whether a call must name a subject.
    private enum SubjectRule: String, CaseIterable {
        case optional, required
    }

    /// Reads `services.NAME.limits`. Invalid limits are reported and omitted.
    static func list(_ value: ConfigurationValue) -> [LimitDefinition] {
        var limits: [LimitDefinition] = []
        for item in value.list() {
            guard let limit = LimitDefinition(reading: item) else { continue }
            if limits.contains(where: { ExactText($0.name) == ExactText(limit.name) }) {
                item.reject("duplicate limit name \"\(limit.name)\"; each limit of a service needs its own name")
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
        var subject = SubjectRule.optional
        value.section { section in
            limit = section.required("limit", "a whole number of 1 or more") { $0.wholeNumber(in: Self.limitRange) }
            window = section.required("per", "a duration such as 1s") { $0.duration(in: Self.windowRange) }
            section.read("name", into: &name) { $0.parsed(insteadOf: Self.expectedName) }
            section.read("per_subject", into: &isPerSubject) { $0.flag() }
            section.read("shadow", into: &isShadow) { $0.flag() }
            section.read("subject", into: &subject) { item in
                let rule = item.parsed(by: SubjectRule.init(parsing:))
                if rule == .required, !isPerSubject {
                    item.reject("required needs per_subject: true; add it to the limit")
                }
                if rule == .required, isShadow {
                    item.reject("required rejects calls, which a shadow limit never does; remove subject or shadow")
                }
                return rule
            }
            algorithm = Self.algorithm(section)
        }
        guard let limit, let window, let algorithm else { return nil }
        self.init(
            name: name ?? Self.defaultName(window: window, isPerSubject: isPerSubject), limit: limit, window: window,
            algorithm: algorithm, isPerSubject: isPerSubject, isShadow: isShadow, requiresSubject: subject == .required)
        if let expected = algorithmViolation { value.reject(expected) }
    }

    /// Reads `algorithm`, which is `fixed` by default, and `burst`, which is 0 by default. Returns `nil` if the
    /// algorithm is invalid.
    private static func algorithm(_ section: ConfigurationSection) -> LimitAlgorithm? {
        var name: LimitAlgorithm.Name? = .fixed
        section.read("algorithm") { name = $0.parsed(by: LimitAlgorithm.Name.init(parsing:)) }
        guard let name else {
            _ = section.value("burst")
            return nil
        }
        if name != .gcra { section.reject(["burst"], "requires algorithm: gcra") }
        switch name {
        case .fixed: return .fixed
        case .sliding: return .sliding
        case .gcra:
            var burst: Int64 = 0
            section.read("burst", into: &burst) { $0.wholeNumber(in: burstRange) }
            return .gcra(burst: burst)
        }
    }

    /// Returns the window in its shortest notation, such as `1s`, or `1s-subject` for a limit per subject.
    private static func defaultName(window: Duration, isPerSubject: Bool) -> String {
        DurationText.shortest(window) + (isPerSubject ? "-subject" : "")
    }
}

extension LimitPolicy {
    /// Reads `services.NAME.on_limit`.
    mutating func read(_ value: ConfigurationValue) {
        value.section(shorthand: "action") { section in
            section.read("action", into: &action) { $0.parsed(by: Action.init(parsing:)) }
            section.read("pause", into: &pause) { $0.durationRange(in: Self.pauseRange) }
            section.read("max_waiting", into: &maximumWaiting) { $0.wholeNumber(in: Self.waitingCountRange) }
            section.read("patience", into: &maximumWait) { $0.duration(in: Self.waitTimeRange) }
        }
    }
}

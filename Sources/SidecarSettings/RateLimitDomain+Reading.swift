import InterlockCore

extension DomainSettings {
    /// Reads `rate_limits`: a mapping from domains to their rules.
    mutating func read(domains value: ConfigurationValue) {
        value.section { section in
            for entry in section.namedEntries() {
                if let expected = ResourceName.expectedPart(insteadOf: entry.name) {
                    entry.key.reject(InvalidConfigurationValue(expected).message(got: ConfigurationValue.quoted(entry.name)))
                }
                var domain = RateLimitDomain(name: entry.name)
                domain.read(entry.value)
                if let cycle = DomainLint.cycle(in: domain.rules) {
                    entry.key.reject(
                        "\(DomainLint.description(ofCycle: cycle)): a request that matches all of these rules escapes them all")
                }
                add(domain, at: entry.key)
                for sentence in DomainLint(domain).warnings { entry.value.findings.warn("\(entry.value.path).\(sentence)") }
            }
        }
    }

    /// Reads `rls`: the settings of Envoy's rate limit service, and the files to import from the reference
    /// implementation.
    mutating func read(service value: ConfigurationValue) {
        value.section { section in
            section.read("timeout", into: &timeout) { $0.duration(in: Self.timeoutRange) }
            section.read("import") { value in
                for file in value.text == nil ? value.list() : [value] {
                    guard let domain = RateLimitDomain.imported(file) else { continue }
                    add(domain, at: file)
                }
            }
        }
    }

    private mutating func add(_ domain: RateLimitDomain, at value: ConfigurationValue) {
        guard !definitions.contains(where: { ExactText($0.name) == ExactText(domain.name) }) else {
            return value.reject("duplicate domain \"\(domain.name)\"; define each domain once")
        }
        definitions.append(domain)
    }
}

extension RateLimitDomain {
    static let counterCountRange = 1...10_000_000

    fileprivate mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.read("independent", into: &isIndependent) { $0.flag() }
            section.read("count_refused", into: &countsRefused) { value in
                let flag = value.flag()
                if flag == true, !isIndependent {
                    value.reject("true requires independent: true; other rules count a request together or not at all")
                }
                return flag
            }
            section.read("shadow", into: &isShadow) { $0.flag() }
            section.read("when_redis_is_down", into: &whenRedisIsDown) { $0.parsed(by: OutagePolicy.init(parsing:)) }
            section.read("max_counters", into: &maximumCounters) { $0.wholeNumber(in: Self.counterCountRange) }
            rules = section.required("descriptors", "a list of descriptors", { DescriptorRule.list($0, atDepth: 1) }) ?? []
        }
        if countsRefused, let rulePath = rules.firstRuleNotCountingRefused() {
            value.reject("count_refused requires the algorithm fixed or aligned; \(rulePath) uses another one")
        }
    }
}

extension [DescriptorRule] {
    /// Returns the path of the first rule whose algorithm cannot count refused requests; `nil` if all can.
    fileprivate func firstRuleNotCountingRefused() -> String? {
        DescriptorIndex(self).rules.first { indexed in
            if case .rate(let limit, _) = indexed.rule.limit { limit.algorithm != .fixed } else { false }
        }?.path
    }
}

extension DescriptorRule {
    /// The algorithm of a rule: one of those of service limits, or windows aligned to the clock of Redis.
    private enum Algorithm: String, CaseIterable {
        case fixed, sliding, gcra, aligned

        func limitAlgorithm(burst: Int64) -> LimitAlgorithm {
            switch self {
            case .fixed, .aligned: .fixed
            case .sliding: .sliding
            case .gcra: .gcra(burst: burst)
            }
        }
    }

    private static let limitRange: ClosedRange<Int64> = 0...LimitDefinition.maximumLimit

    /// Reads the rules of a list.
    /// - Parameter depth: the nesting depth of the list, starting at 1.
    fileprivate static func list(_ value: ConfigurationValue, atDepth depth: Int) -> [DescriptorRule] {
        siblings(value, atDepth: depth) { DescriptorRule(reading: $0, atDepth: depth) }
    }

    /// Reads the rules of one list. A second rule for the same key and value is rejected, because one of the two would
    /// have no effect.
    static func siblings(
        _ value: ConfigurationValue, atDepth depth: Int, read: (ConfigurationValue) -> DescriptorRule?
    ) -> [DescriptorRule] {
        guard depth <= DescriptorEntry.maximumCount else {
            value.reject("expected descriptors nested at most \(DescriptorEntry.maximumCount) levels deep")
            return []
        }
        var seenEntries: Set<[ExactText?]> = []
        return value.list().compactMap { item in
            guard let rule = read(item) else { return nil }
            guard seenEntries.insert([ExactText(rule.key), rule.value.map { ExactText($0.text) }]).inserted else {
                item.reject("duplicate rule for this value of the key \(ConfigurationValue.quoted(rule.key)); remove one")
                return nil
            }
            return rule
        }
    }

    private init?(reading value: ConfigurationValue, atDepth depth: Int) {
        var key: String?
        var rule = DescriptorRule(key: "")
        value.section { section in
            key = section.required("key", "the key of a descriptor's entry") { $0.parsed(insteadOf: Self.expectedKey) }
            section.readOptional("value", into: &rule.value) { $0.parsed { text in DescriptorPattern(text) } }
            section.read("share", into: &rule.isShared) { $0.sharing(by: rule.value) }
            section.read("shadow", into: &rule.isShadow) { $0.flag() }
            section.read("detailed_metrics", into: &rule.hasDetailedMetrics) { $0.flag() }
            section.readOptional("name", into: &rule.name) { $0.parsed(insteadOf: ResourceName.expectedPart) }
            section.read("replaces") { list in
                rule.replaces = list.list().compactMap { $0.parsed(insteadOf: ResourceName.expectedPart) }
                if let name = rule.name, rule.replaces.contains(name) {
                    list.reject("a rule cannot replace itself; remove \(ConfigurationValue.quoted(name))")
                }
            }
            rule.limit = Self.limit(section)
            section.read("descriptors") { rule.rules = Self.list($0, atDepth: depth + 1) }
        }
        guard let key else { return nil }
        rule.key = key
        self = rule
    }

    private static func expectedKey(insteadOf key: String) -> String? { key.isEmpty ? "the key of a descriptor's entry" : nil }

    /// Returns the limit of a rule; `nil` if the limit is missing or invalid.
    private static func limit(_ section: ConfigurationSection) -> DescriptorLimit? {
        var isUnlimited = false
        section.read("unlimited", into: &isUnlimited) { $0.flag() }
        var limit: Int64?
        section.readOptional("limit", into: &limit) { $0.wholeNumber(in: limitRange) }
        var window: Duration?
        section.readOptional("per", into: &window) { $0.duration(in: LimitDefinition.windowRange) }
        var algorithm: Algorithm = .fixed
        section.read("algorithm", into: &algorithm) { $0.parsed(by: Algorithm.init(parsing:)) }
        var burst: Int64 = 0
        section.read("burst", into: &burst) { $0.wholeNumber(in: LimitDefinition.burstRange) }
        if algorithm != .gcra { section.reject(["burst"], "requires algorithm: gcra") }
        if isUnlimited {
            section.reject(["limit", "per", "algorithm"], "conflicts with unlimited: true; remove one of them")
            return .unlimited
        }
        guard let limit else {
            section.reject(["per", "algorithm", "shadow", "replaces"], "requires a limit")
            return nil
        }
        guard limit > 0 else { return .blocked(window: window ?? DescriptorLimit.blockedWindow) }
        guard let window else {
            if section.value("per") == nil { section.mapping.reject("expected the key per: a duration such as 1s") }
            return nil
        }
        let definition = LimitDefinition(
            name: DurationText.shortest(window), limit: limit, window: window,
            algorithm: algorithm.limitAlgorithm(burst: burst))
        if let expected = definition.algorithmViolation { section.mapping.reject(expected) }
        return .rate(definition, isAligned: algorithm == .aligned)
    }
}

extension ConfigurationValue {
    /// Reads whether all values that match a rule share one counter, which requires a pattern with a star.
    func sharing(by pattern: DescriptorPattern?) -> Bool? {
        let flag = flag()
        if flag == true, pattern?.hasStars != true { reject("true requires a value with a star") }
        return flag
    }
}

import InterlockCore

extension RateLimitDomain {
    /// Takes over a configuration of envoyproxy/ratelimit as it is: what it decides, this domain decides. What cannot be is refused, with its
    /// line.
    /// - Parameter value: names the file.
    /// - Returns: `nil`: it was refused.
    static func imported(_ value: ConfigurationValue) -> RateLimitDomain? {
        guard let path = value.parsed(insteadOf: { $0.isEmpty ? "the path of a file" : nil }) else { return nil }
        let findings = ConfigurationFindings(fileName: path, readsSecrets: value.findings.readsSecrets)
        defer { value.findings.adopt(findings) }
        let file = ConfigurationFile(path: path)
        do throws(ConfigurationError) {
            guard let root = try file.compose(try file.text()) else {
                findings.refuse(at: findings.wholeFile, path: nil, "expected a domain and its descriptors, got nothing")
                return nil
            }
            return RateLimitDomain(importing: ConfigurationValue(node: root, path: "", findings: findings))
        } catch {
            findings.adopt(error)
            return nil
        }
    }

    private init?(importing value: ConfigurationValue) {
        var name: String?
        var rules: [DescriptorRule] = []
        value.section { section in
            name = section.required("domain", "the domain's name") { $0.parsed(insteadOf: ResourceName.expectedPart) }
            section.read("descriptors") { rules = DescriptorRule.imported($0, deep: 1, isDetailed: false) }
        }
        guard let name else { return nil }
        self.init(name: name, rules: rules)
        isIndependent = true
        countsRefused = true
    }
}

extension DescriptorRule {
    private static let limits: ClosedRange<Int64> = 0...Int64(UInt32.max)

    /// - Parameter isDetailed: a rule that leads here shows the values in its metrics.
    fileprivate static func imported(_ value: ConfigurationValue, deep depth: Int, isDetailed: Bool) -> [DescriptorRule] {
        guard depth <= DescriptorEntry.most else {
            value.refuse("expected descriptors nested \(DescriptorEntry.most) deep at most")
            return []
        }
        return siblings(value) { DescriptorRule(importing: $0, deep: depth, isDetailed: isDetailed) }
    }

    private init?(importing value: ConfigurationValue, deep depth: Int, isDetailed: Bool) {
        var key: String?
        var rule = DescriptorRule(key: "")
        rule.hasDetailedMetrics = isDetailed
        value.section { section in
            key = section.required("key", "the key of a descriptor's entry") { item in
                item.parsed { text throws(ConfigurationExpectation) in
                    guard !text.isEmpty else { throw ConfigurationExpectation("the key of a descriptor's entry") }
                    guard !text.contains("*") else {
                        throw ConfigurationExpectation("a key without a star: stars stand for parts of values here")
                    }
                    return text
                }
            }
            section.read("value") { item in
                guard let text = item.word else { return item.refuse(expected: ConfigurationExpectation("a text")) }
                rule.value = text.isEmpty ? nil : DescriptorPattern(text)
            }
            section.read("rate_limit") { rule.read(limit: $0) }
            section.read("shadow_mode", into: &rule.isShadow) { $0.flag() }
            section.read("share_threshold", into: &rule.sharesCount) { $0.sharing(by: rule.value) }
            for metrics in ["detailed_metric", "value_to_metric"] {
                section.read(metrics) { item in if item.flag() == true { rule.hasDetailedMetrics = true } }
            }
            section.read("quota_mode") { item in
                if item.flag() == true { item.refuse("quota_mode is not carried out here; take it away, or set it to false") }
            }
            section.refuse(["metadata"], "metadata are not sent by this service; take them away")
            section.read("descriptors") {
                rule.rules = Self.imported($0, deep: depth + 1, isDetailed: rule.hasDetailedMetrics)
            }
        }
        guard let key else { return nil }
        rule.key = key
        self = rule
    }

    private mutating func read(limit value: ConfigurationValue) {
        guard !value.isNull else { return }
        value.section { section in
            var isUnlimited = false
            section.read("unlimited", into: &isUnlimited) { $0.flag() }
            var count: Int64 = 0
            section.read("requests_per_unit", into: &count) { $0.wholeNumber(in: Self.limits) }
            section.readOptional("name", into: &name) { $0.parsed(insteadOf: ResourceName.expectedPart) }
            section.read("replaces") { list in
                for item in list.list() {
                    item.section { entry in
                        let replaced = entry.required("name", "the name of another limit") {
                            $0.parsed(insteadOf: ResourceName.expectedPart)
                        }
                        if let replaced { replaces.append(replaced) }
                    }
                }
            }
            if let name, replaces.contains(name) { section.whole.refuse("a limit cannot replace itself") }
            var unit: RateLimitUnit?
            section.readOptional("unit", into: &unit) { item in
                item.parsed { text throws(ConfigurationExpectation) in
                    guard let unit = RateLimitUnit(rawValue: text.lowercased()) else {
                        throw ConfigurationExpectation(
                            ConfigurationText.alternatives(RateLimitUnit.allCases.map(\.rawValue)))
                    }
                    return unit
                }
            }
            if isUnlimited {
                section.refuse(["unit"], "does not go with unlimited: true; take one of the two away")
                limit = .unlimited
            } else if let unit {
                limit =
                    count == 0
                    ? .blocked(window: unit.window)
                    : .rate(
                        LimitDefinition(name: DurationText.shortest(unit.window), limit: count, window: unit.window),
                        isAligned: true)
            } else if section.value("unit") == nil {
                section.whole.refuse(
                    "expected the key unit: \(ConfigurationText.alternatives(RateLimitUnit.allCases.map(\.rawValue)))")
            }
        }
    }
}

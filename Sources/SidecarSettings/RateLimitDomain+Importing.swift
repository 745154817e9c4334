import InterlockCore

extension RateLimitDomain {
    /// Imports a configuration file of envoyproxy/ratelimit so that this domain makes the same decisions. Unsupported
    /// settings are rejected with their line.
    /// - Parameter value: the path of the file.
    /// - Returns: the domain; `nil` if the file was rejected.
    static func imported(_ value: ConfigurationValue) -> RateLimitDomain? {
        guard let path = value.parsed(insteadOf: { $0.isEmpty ? "the path of a file" : nil }) else { return nil }
        let findings = ConfigurationFindings(fileName: path, readsSecrets: value.findings.readsSecrets)
        defer { value.findings.merge(findings) }
        let file = ConfigurationFile(path: path)
        do throws(ConfigurationError) {
            guard let root = try file.compose(try file.text()) else {
                findings.reject(at: findings.wholeFile, path: nil, "expected a domain and its descriptors, got nothing")
                return nil
            }
            return RateLimitDomain(importing: ConfigurationValue(node: root, path: "", findings: findings))
        } catch {
            findings.merge(error)
            return nil
        }
    }

    private init?(importing value: ConfigurationValue) {
        var name: String?
        var rules: [DescriptorRule] = []
        value.section { section in
            name = section.required("domain", "the domain's name") { $0.parsed(insteadOf: Self.expectedDomain) }
            section.read("descriptors") { rules = DescriptorRule.imported($0, atDepth: 1, isDetailed: false) }
            // Gateways write the name of the file here. The reference implementation ignores it too.
            section.read("name") { _ in }
            section.ignoreReferenceKeys()
        }
        guard let name else { return nil }
        self.init(name: name, rules: rules)
        let findings = value.findings
        for sentence in DomainLint(self).warnings { findings.warn("\(findings.fileName): \(sentence)") }
        if let cycle = DomainLint.cycle(in: rules) {
            findings.warn(
                "\(findings.fileName): \(DomainLint.description(ofCycle: cycle)): "
                    + "a request that matches all of these rules escapes them all")
        }
        isIndependent = true
        countsRefused = true
    }

    /// Returns what was expected instead of a domain's name; `nil` if the name is valid. A name may contain colons,
    /// because Redis keys enclose it in braces.
    private static func expectedDomain(insteadOf name: String) -> String? {
        do throws(ResourceName.Violation) { _ = try ResourceName(name) } catch {
            return "a name of \(ResourceName.rule)"
        }
        return nil
    }
}

extension ConfigurationSection {
    /// All keys of the reference implementation, which ignores a key in a mapping where it has no meaning.
    private static let referenceKeys: Set<String> = [
        "domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode",
        "quota_mode",
        "name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
    ]

    fileprivate func ignoreReferenceKeys() {
        ignore(Self.referenceKeys, "has no effect here, and is ignored as in envoyproxy/ratelimit")
    }
}

extension DescriptorRule {
    private static let limitRange: ClosedRange<Int64> = 0...Int64(UInt32.max)
    /// The maximum length of a limit's name, in bytes. The reference implementation has no maximum.
    private static let maximumNameBytes = 1024

    private static func expectedName(insteadOf name: String) -> String? {
        name.isEmpty || name.utf8.count > maximumNameBytes ? "a string of 1-\(maximumNameBytes) bytes" : nil
    }

    /// Reads the rules of a list in the format of the reference implementation.
    /// - Parameter isDetailed: whether an enclosing rule has detailed metrics.
    fileprivate static func imported(_ value: ConfigurationValue, atDepth depth: Int, isDetailed: Bool) -> [DescriptorRule] {
        siblings(value, atDepth: depth) { DescriptorRule(importing: $0, atDepth: depth, isDetailed: isDetailed) }
    }

    private init?(importing value: ConfigurationValue, atDepth depth: Int, isDetailed: Bool) {
        var key: String?
        var rule = DescriptorRule(key: "")
        rule.hasDetailedMetrics = isDetailed
        value.section { section in
            key = section.required("key", "the key of a descriptor's entry") { item in
                item.parsed { text throws(InvalidConfigurationValue) in
                    guard !text.isEmpty else { throw InvalidConfigurationValue("the key of a descriptor's entry") }
                    guard !text.contains("*") else {
                        throw InvalidConfigurationValue("a key without a star; stars are wildcards in values only")
                    }
                    return text
                }
            }
            section.read("value") { item in
                guard let text = item.text else { return item.reject(expected: InvalidConfigurationValue("a string")) }
                rule.value = text.isEmpty ? nil : DescriptorPattern(text)
            }
            section.read("rate_limit") { rule.read(limit: $0) }
            section.read("shadow_mode", into: &rule.isShadow) { $0.flag() }
            section.read("share_threshold", into: &rule.isShared) { $0.sharing(by: rule.value) }
            for metrics in ["detailed_metric", "value_to_metric"] {
                section.read(metrics) { item in if item.flag() == true { rule.hasDetailedMetrics = true } }
            }
            section.read("quota_mode") { item in
                if item.flag() == true { item.reject("quota_mode is not supported; remove it, or set it to false") }
            }
            section.read("metadata") { item in
                if case .mapping(let entries) = item.node.content, entries.isEmpty { return }
                if !item.isNull { item.reject("metadata is not supported; remove it") }
            }
            section.read("descriptors") {
                rule.rules = Self.imported($0, atDepth: depth + 1, isDetailed: rule.hasDetailedMetrics)
            }
            section.ignoreReferenceKeys()
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
            var requestsPerUnit: Int64 = 0
            section.read("requests_per_unit", into: &requestsPerUnit) { $0.wholeNumber(in: Self.limitRange) }
            section.readOptional("name", into: &name) { $0.text?.isEmpty == true ? nil : $0.parsed(insteadOf: Self.expectedName) }
            section.read("replaces") { list in
                for item in list.list() {
                    item.section { entry in
                        let replaced = entry.required("name", "the name of another limit") {
                            $0.parsed(insteadOf: Self.expectedName)
                        }
                        if let replaced { replaces.append(replaced) }
                        entry.ignoreReferenceKeys()
                    }
                }
            }
            if let name, replaces.contains(name) { section.mapping.reject("a limit cannot replace itself") }
            var unit: RateLimitUnit?
            section.readOptional("unit", into: &unit) { item in
                // In an unlimited rule, the reference implementation rejects a unit only if the unit is valid.
                if isUnlimited, item.text.map({ RateLimitUnit(rawValue: $0.lowercased()) == nil }) == true { return nil }
                return item.parsed { text throws(InvalidConfigurationValue) in
                    guard let unit = RateLimitUnit(rawValue: text.lowercased()) else {
                        throw InvalidConfigurationValue(
                            ConfigurationText.alternatives(RateLimitUnit.allCases.map(\.rawValue)))
                    }
                    return unit
                }
            }
            section.ignoreReferenceKeys()
            if isUnlimited {
                if unit != nil { section.reject(["unit"], "conflicts with unlimited: true; remove one of them") }
                limit = .unlimited
            } else if let unit {
                limit =
                    requestsPerUnit == 0
                    ? .blocked(window: unit.window)
                    : .rate(
                        LimitDefinition(
                            name: DurationText.shortest(unit.window), limit: requestsPerUnit, window: unit.window),
                        isAligned: true)
            } else if section.value("unit") == nil {
                section.mapping.reject(
                    "expected the key unit: \(ConfigurationText.alternatives(RateLimitUnit.allCases.map(\.rawValue)))")
            }
        }
    }
}

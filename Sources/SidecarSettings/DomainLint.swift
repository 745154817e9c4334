import InterlockCore

/// Finds rules of a domain that appear to limit requests but have no effect, which are probably mistakes.
struct DomainLint {
    /// The maximum number of patterns of one key that are compared with each other.
    private static let maximumPatterns = 1000

    private let domain: RateLimitDomain
    private let names: Set<String>
    /// The warnings, one sentence each, starting with the rule's path below the domain.
    private(set) var warnings: [String] = []

    init(_ domain: RateLimitDomain) {
        self.domain = domain
        var names: Set<String> = []
        Self.visit(domain.rules) { if let name = $0.name { names.insert(name) } }
        self.names = names
        if domain.rules.isEmpty { warnings.append("descriptors: the list is empty, so the domain limits nothing") }
        examine(domain.rules, at: "descriptors")
    }

    /// Calls `body` with each rule and, after it, with the rules below it.
    private static func visit(_ rules: [DescriptorRule], _ body: (DescriptorRule) -> Void) {
        for rule in rules {
            body(rule)
            visit(rule.rules, body)
        }
    }

    /// Checks the rules of a list, and the lists below them.
    private mutating func examine(_ rules: [DescriptorRule], at path: String) {
        let widerRules = Dictionary(grouping: rules.filter { $0.value?.hasStars != false }) { ExactText($0.key) }
        var patterns: [ExactText: [DescriptorPattern]] = [:]
        for (index, rule) in rules.enumerated() {
            let path = "\(path)[\(index)]"
            let earlierPatterns = patterns[ExactText(rule.key)] ?? []
            examine(replacing: rule, at: path)
            if let cover = earlierPatterns.prefix(Self.maximumPatterns).first(where: { rule.isCovered(by: $0) }) {
                warnings.append(
                    "\(path): no request reaches this rule: the earlier value \(ConfigurationValue.quoted(cover.text)) matches "
                        + "everything that it matches; move the narrower rule up")
            }
            if let value = rule.value, value.hasStars { patterns[ExactText(rule.key), default: []].append(value) }
            if rule.limit == nil, rule.rules.isEmpty, !isExempt(rule, among: widerRules[ExactText(rule.key)] ?? []) {
                warnings.append("\(path): this rule limits nothing; add a limit, or set unlimited: true")
            }
            examine(rule.rules, at: path + ".descriptors")
        }
    }

    /// Checks the names of the limits that a rule replaces.
    private mutating func examine(replacing rule: DescriptorRule, at path: String) {
        for name in rule.replaces where !names.contains(name) {
            let hint = ConfigurationText.closest(to: name, among: names.sorted()).map { "; did you mean \($0)?" } ?? ""
            warnings.append(
                "\(path).replaces: no rule of this domain is named \(ConfigurationValue.quoted(name))\(hint)")
        }
        if rule.isShadow, let name = rule.replaces.first(where: names.contains) {
            warnings.append(
                "\(path).replaces: a shadow rule rejects nothing, so requests that match it escape "
                    + "\(ConfigurationValue.quoted(name)) too; remove shadow or replaces")
        }
    }

    /// Returns whether a rule without a limit exempts values that another rule in its list would limit.
    /// - Parameter wider: the rules with the same key that match more than one value.
    private func isExempt(_ rule: DescriptorRule, among wider: [DescriptorRule]) -> Bool {
        guard let value = rule.value else { return false }
        return wider.prefix(Self.maximumPatterns).contains { other in
            other.value.map { $0 != value && $0.covers(value) } ?? true
        }
    }

    /// Returns the names of rules that replace each other in a cycle, so that none of them limits a request that
    /// matches them all. Returns `nil` if there is no cycle. O(n) in the number of rules and their replacements.
    static func cycle(in rules: [DescriptorRule]) -> [String]? {
        var replaced: [String: Set<String>] = [:]
        visit(rules) { rule in
            if let name = rule.name { replaced[name, default: []].formUnion(rule.replaces.filter { $0 != name }) }
        }
        var finished: Set<String> = []
        for start in replaced.keys.sorted() where !finished.contains(start) {
            // The path of the depth-first search, and the unvisited names at each of its steps.
            var path = [start]
            var unvisited = [replaced[start]?.sorted() ?? []]
            while !path.isEmpty {
                guard let next = unvisited[unvisited.count - 1].popLast() else {
                    finished.insert(path.removeLast())
                    unvisited.removeLast()
                    continue
                }
                if let first = path.firstIndex(of: next) { return Array(path[first...]) }
                guard !finished.contains(next), let successors = replaced[next] else { continue }
                path.append(next)
                unvisited.append(successors.sorted())
            }
        }
        return nil
    }

    /// Describes a cycle: `"x" replaces "y" replaces "x"`.
    static func description(ofCycle cycle: [String]) -> String {
        let smallest = cycle.indices.min { cycle[$0] < cycle[$1] } ?? 0
        let names = cycle[smallest...] + cycle[..<smallest] + [cycle[smallest]]
        return names.map(ConfigurationValue.quoted).joined(separator: " replaces ")
    }
}

extension DescriptorRule {
    /// Returns whether an earlier pattern matches everything that this rule matches. Values without a star take
    /// precedence over patterns.
    fileprivate func isCovered(by pattern: DescriptorPattern) -> Bool {
        guard let value else { return pattern.covers(DescriptorPattern("*")) }
        return value.hasStars && pattern.covers(value)
    }
}

extension DescriptorPattern {
    /// Returns whether this pattern matches everything that `other` matches. A star is matched only by a star.
    fileprivate func covers(_ other: DescriptorPattern) -> Bool { hasStars && matches(other.text) }
}

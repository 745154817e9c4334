import InterlockCore

/// Finds rules of a domain that limit nobody although they look as if they did: most likely a mistake, and none for certain.
struct DomainDoubts {
    /// The most patterns of one key that are compared with each other.
    private static let mostPatterns = 1000

    private let domain: RateLimitDomain
    private let names: Set<String>
    /// One sentence each, opening with the rule's path below the domain.
    private(set) var sentences: [String] = []

    init(_ domain: RateLimitDomain) {
        self.domain = domain
        var names: Set<String> = []
        Self.visit(domain.rules) { if let name = $0.name { names.insert(name) } }
        self.names = names
        if domain.rules.isEmpty { sentences.append("descriptors: there are none, so the domain limits nobody") }
        examine(domain.rules, at: "descriptors")
    }

    private static func visit(_ rules: [DescriptorRule], _ body: (DescriptorRule) -> Void) {
        for rule in rules {
            body(rule)
            visit(rule.rules, body)
        }
    }

    private mutating func examine(_ rules: [DescriptorRule], at path: String) {
        let all = Dictionary(grouping: rules.filter { $0.value?.hasStars != false }) { ExactText($0.key) }
        var patterns: [ExactText: [DescriptorPattern]] = [:]
        for (place, rule) in rules.enumerated() {
            let path = "\(path)[\(place)]"
            let before = patterns[ExactText(rule.key)] ?? []
            examine(replacing: rule, at: path)
            if let cover = before.prefix(Self.mostPatterns).first(where: { rule.isCovered(by: $0) }) {
                sentences.append(
                    "\(path): no descriptor meets this rule: the value \(ConfigurationValue.quoted(cover.text)) above matches "
                        + "whatever it does; put the narrower rule first")
            }
            if let value = rule.value, value.hasStars { patterns[ExactText(rule.key), default: []].append(value) }
            if rule.limit == nil, rule.rules.isEmpty, !isExempt(rule, among: all[ExactText(rule.key)] ?? []) {
                sentences.append("\(path): it limits nobody; give it a limit, or say unlimited: true")
            }
            examine(rule.rules, at: path + ".descriptors")
        }
    }

    private mutating func examine(replacing rule: DescriptorRule, at path: String) {
        for name in rule.replaces where !names.contains(name) {
            let hint = ConfigurationText.closest(to: name, among: names.sorted()).map { "; did you mean \($0)?" } ?? ""
            sentences.append(
                "\(path).replaces: no rule of this domain has the name \(ConfigurationValue.quoted(name))\(hint)")
        }
        if rule.isShadow, let name = rule.replaces.first(where: names.contains) {
            sentences.append(
                "\(path).replaces: a shadow refuses nobody, so requests that meet it are not held to "
                    + "\(ConfigurationValue.quoted(name)) either; take one of the two away")
        }
    }

    /// Whether a rule without a limit lets values pass that another rule in its list would limit.
    /// - Parameter wider: the rules for its key that are for more than one value.
    private func isExempt(_ rule: DescriptorRule, among wider: [DescriptorRule]) -> Bool {
        guard let value = rule.value else { return false }
        return wider.prefix(Self.mostPatterns).contains { other in other.value.map { $0 != value && $0.covers(value) } ?? true }
    }

    /// Names of rules each of which replaces the next one, the last one the first: a request that meets them all is held to none of
    /// them. `nil`: there is no such circle. O(rules and what they replace).
    static func circle(in rules: [DescriptorRule]) -> [String]? {
        var replaced: [String: Set<String>] = [:]
        visit(rules) { rule in
            if let name = rule.name { replaced[name, default: []].formUnion(rule.replaces.filter { $0 != name }) }
        }
        var settled: Set<String> = []
        for start in replaced.keys.sorted() where !settled.contains(start) {
            // The way to where it is, and what is to be tried from each step of it.
            var way = [start]
            var left = [replaced[start]?.sorted() ?? []]
            while !way.isEmpty {
                guard let next = left[left.count - 1].popLast() else {
                    settled.insert(way.removeLast())
                    left.removeLast()
                    continue
                }
                if let first = way.firstIndex(of: next) { return Array(way[first...]) }
                guard !settled.contains(next), let further = replaced[next] else { continue }
                way.append(next)
                left.append(further.sorted())
            }
        }
        return nil
    }

    /// A circle in words: `"x" replaces "y" replaces "x"`.
    static func described(_ circle: [String]) -> String {
        let least = circle.indices.min { circle[$0] < circle[$1] } ?? 0
        let names = circle[least...] + circle[..<least] + [circle[least]]
        return names.map(ConfigurationValue.quoted).joined(separator: " replaces ")
    }
}

extension DescriptorRule {
    /// Whether a pattern that stands above matches all that this rule is for. Values without a star come before any pattern.
    fileprivate func isCovered(by pattern: DescriptorPattern) -> Bool {
        guard let value else { return pattern.covers(DescriptorPattern("*")) }
        return value.hasStars && pattern.covers(value)
    }
}

extension DescriptorPattern {
    /// Whether this pattern matches everything that `other` matches. Only a star matches a star.
    fileprivate func covers(_ other: DescriptorPattern) -> Bool { hasStars && matches(other.text) }
}

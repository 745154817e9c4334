/// The rules of a domain, indexed for lookup. A descriptor matches the rule that is reached by following its entries
/// one by one to the last. An exact value takes precedence over patterns, which apply in file order, and patterns over
/// a rule for any value. There is no backtracking from a chosen rule.
package struct DescriptorIndex: Sendable {
    /// A rule at which a descriptor ends. It outlives its index, so decisions made before a reload can still be
    /// reported.
    package final class Rule: Hashable, Sendable {
        package let rule: DescriptorRule
        /// The rule's name in metrics and answers: `message_type=marketing,to_number`.
        package let path: String

        init(_ rule: DescriptorRule, path: String) {
            self.rule = rule
            self.path = path
        }

        /// How long the rule's counts are remembered, in milliseconds; 0 if it counts nothing.
        package var windowMilliseconds: Int64 {
            if case .rate(let definition, _)? = rule.limit { definition.windowMilliseconds } else { 0 }
        }

        package static func == (left: Rule, right: Rule) -> Bool { left === right }

        package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }

    /// The rule and the counter of a descriptor.
    package struct Match: Sendable {
        package var rule: Rule
        /// The part of the counter's key that encodes the entries; empty if the rule counts nothing.
        package var counter: String
    }

    private struct Node: Sendable {
        var rule: Rule?
        var isShared = false
        var branches: [ExactText: Branch] = [:]
    }

    private struct Branch: Sendable {
        var exact: [ExactText: Int] = [:]
        var patterns: [(pattern: DescriptorPattern, node: Int)] = []
        var any: Int?
    }

    /// The rules with a limit, unlimited ones included, in file order.
    package private(set) var rules: [Rule] = []
    private var nodes: [Node] = [Node()]

    package init(_ rules: [DescriptorRule]) {
        for rule in rules { add(rule, below: 0, path: "") }
    }

    private mutating func add(_ rule: DescriptorRule, below parent: Int, path: String) {
        let node = nodes.count
        nodes.append(Node(isShared: rule.isShared))
        let branch = ExactText(rule.key)
        switch rule.value {
        case nil: nodes[parent].branches[branch, default: Branch()].any = node
        case let pattern? where pattern.hasStars:
            nodes[parent].branches[branch, default: Branch()].patterns.append((pattern, node))
        case let value?: nodes[parent].branches[branch, default: Branch()].exact[ExactText(value.text)] = node
        }
        var path = path.isEmpty ? rule.key : path + "," + rule.key
        if let value = rule.value { path += "=" + value.text }
        if rule.limit != nil {
            let indexed = Rule(rule, path: path)
            nodes[node].rule = indexed
            rules.append(indexed)
        }
        for next in rule.rules { add(next, below: node, path: path) }
    }

    /// Returns the rule that a descriptor matches; `nil` if no rule limits it. O(entries), and O(patterns) at each.
    package func match(_ entries: some Collection<DescriptorEntry>) -> Match? {
        var node = 0
        var counter = CounterName()
        for entry in entries {
            guard let next = step(from: node, by: entry, &counter) else { return nil }
            node = next
        }
        return match(at: node, counter)
    }

    /// Returns the rule that unordered entries, each with a different key, lead to. If there are several ways, the
    /// first in key order applies. O(entries²), plus O(entries) for each rule on a dead end: no rule is visited twice.
    package func match(unordered entries: [DescriptorEntry]) -> Match? {
        match(unordered: entries.sorted { $0.key < $1.key }, from: 0, CounterName())
    }

    private func match(unordered left: [DescriptorEntry], from node: Int, _ counter: CounterName) -> Match? {
        guard !left.isEmpty else { return match(at: node, counter) }
        for (index, entry) in left.enumerated() {
            var counter = counter
            guard let next = step(from: node, by: entry, &counter) else { continue }
            var rest = left
            rest.remove(at: index)
            if let found = match(unordered: rest, from: next, counter) { return found }
        }
        return nil
    }

    /// - Returns: the node that an entry leads to; `nil` if there is none, which leaves the counter's name unchanged.
    private func step(from node: Int, by entry: DescriptorEntry, _ counter: inout CounterName) -> Int? {
        guard let branch = nodes[node].branches[ExactText(entry.key)] else { return nil }
        var counted = entry.value
        let next: Int
        if let exact = branch.exact[ExactText(entry.value)] {
            next = exact
        } else if let found = branch.patterns.first(where: { $0.pattern.matches(entry.value) }) {
            next = found.node
            if nodes[next].isShared { counted = found.pattern.text }
        } else if let any = branch.any {
            next = any
        } else {
            return nil
        }
        counter.append(key: entry.key, value: counted)
        return next
    }

    private func match(at node: Int, _ counter: CounterName) -> Match? {
        guard let rule = nodes[node].rule else { return nil }
        return Match(rule: rule, counter: rule.windowMilliseconds == 0 ? "" : counter.text)
    }
}

extension DescriptorEntry {
    /// Parses `key=value,key=value` as `CounterName` writes it; returns `nil` if the text is invalid.
    package static func list(_ text: String) -> [DescriptorEntry]? {
        var entries: [DescriptorEntry] = []
        for part in text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")), equals > part.startIndex,
                let key = decoded(part[..<equals]), let value = decoded(part[part.index(after: equals)...])
            else { return nil }
            entries.append(DescriptorEntry(key: key, value: value))
        }
        return entries
    }

    private static func decoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let decoded = UInt8(String(Substring(rest.prefix(2))), radix: 16) else { return nil }
            bytes.append(decoded)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// The rules of a domain, indexed for lookup. Each entry of a descriptor leads from a rule to one of the rules below
/// it. The descriptor matches the rule that its last entry leads to. An exact value takes precedence over patterns,
/// which apply in file order, and patterns take precedence over a rule for any value. There is no backtracking from a
/// chosen rule.
package struct DescriptorIndex: Sendable {
    /// A rule at which a descriptor can end. It outlives its index, so that a decision made before a reload can still
    /// be reported.
    package final class Rule: Hashable, Sendable {
        package let rule: DescriptorRule
        /// The rule's name in metrics and responses: `message_type=marketing,to_number`.
        package let path: String

        init(_ rule: DescriptorRule, path: String) {
            self.rule = rule
            self.path = path
        }

        /// The window of the rule's limit, in milliseconds; 0 if the rule counts nothing.
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

    /// A rule, with the rules below it.
    private struct Node: Sendable {
        /// The rule; `nil` if it has no limit.
        var rule: Rule?
        /// Whether all values that the rule's pattern matches share one counter.
        var isShared = false
        /// The rules below, by key.
        var branches: [ExactText: Branch] = [:]
    }

    /// The indices of the rules for one key.
    private struct Branch: Sendable {
        var exactValues: [ExactText: Int] = [:]
        var patterns: [(pattern: DescriptorPattern, node: Int)] = []
        var anyValue: Int?
    }

    /// The rules with a limit, including unlimited rules, in file order.
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
        case nil: nodes[parent].branches[branch, default: Branch()].anyValue = node
        case let pattern? where pattern.hasStars:
            nodes[parent].branches[branch, default: Branch()].patterns.append((pattern, node))
        case let value?: nodes[parent].branches[branch, default: Branch()].exactValues[ExactText(value.text)] = node
        }
        var path = path.isEmpty ? rule.key : path + "," + rule.key
        if let value = rule.value { path += "=" + value.text }
        if rule.limit != nil {
            let indexed = Rule(rule, path: path)
            nodes[node].rule = indexed
            rules.append(indexed)
        }
        for nestedRule in rule.rules { add(nestedRule, below: node, path: path) }
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

    /// Returns the rule that entries with different keys lead to in any order. If several orders lead to a rule, the
    /// first in key order applies. O(entries²), plus O(entries) for each rule on a dead end, because no rule is visited
    /// twice.
    package func match(unordered entries: [DescriptorEntry]) -> Match? {
        match(unordered: entries.sorted { $0.key < $1.key }, from: 0, CounterName())
    }

    private func match(unordered remaining: [DescriptorEntry], from node: Int, _ counter: CounterName) -> Match? {
        guard !remaining.isEmpty else { return match(at: node, counter) }
        for (index, entry) in remaining.enumerated() {
            var counter = counter
            guard let next = step(from: node, by: entry, &counter) else { continue }
            var others = remaining
            others.remove(at: index)
            if let match = match(unordered: others, from: next, counter) { return match }
        }
        return nil
    }

    /// Follows an entry, and appends it to the counter's name.
    /// - Returns: the node that the entry leads to; `nil` if it leads to no node, which leaves the name unchanged.
    private func step(from node: Int, by entry: DescriptorEntry, _ counter: inout CounterName) -> Int? {
        guard let branch = nodes[node].branches[ExactText(entry.key)] else { return nil }
        var countedValue = entry.value
        let next: Int
        if let node = branch.exactValues[ExactText(entry.value)] {
            next = node
        } else if let match = branch.patterns.first(where: { $0.pattern.matches(entry.value) }) {
            next = match.node
            if nodes[next].isShared { countedValue = match.pattern.text }
        } else if let node = branch.anyValue {
            next = node
        } else {
            return nil
        }
        counter.append(key: entry.key, value: countedValue)
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

    /// Decodes percent-encoded text; returns `nil` if it is invalid.
    private static func decoded(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var remaining = text[...]
        while let byte = remaining.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard remaining.count >= 2, let decodedByte = UInt8(String(Substring(remaining.prefix(2))), radix: 16)
            else { return nil }
            bytes.append(decodedByte)
            remaining = remaining.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

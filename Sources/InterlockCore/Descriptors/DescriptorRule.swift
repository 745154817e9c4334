/// A rule of a domain: the entry that it matches, the limit of the descriptors that end with this entry, and the rules
/// for the next entry.
package struct DescriptorRule: Hashable, Sendable {
    package var key: String
    /// The value to match; `nil` for any value. A value without stars takes precedence over patterns, and patterns take
    /// precedence over any value.
    package var value: DescriptorPattern?
    /// The limit of the descriptors that end at this rule; `nil` if they are not limited.
    package var limit: DescriptorLimit?
    /// The name in responses and in the `replaces` of other rules.
    package var name: String?
    /// The names of rules that do not apply to a request that this rule matches.
    package var replaces: [String] = []
    /// Whether the rule only counts and reports what it would refuse. It then refuses no request.
    package var isShadow = false
    /// Whether all values that the pattern matches share one counter.
    package var isShared = false
    /// Whether the rule's metrics distinguish the values.
    package var hasDetailedMetrics = false
    package var rules: [DescriptorRule] = []

    package init(
        key: String, value: DescriptorPattern? = nil, limit: DescriptorLimit? = nil, rules: [DescriptorRule] = []
    ) {
        self.key = key
        self.value = value
        self.limit = limit
        self.rules = rules
    }
}

extension DescriptorRule: DigestedSetting {
    /// All settings except the nested rules, whose lines follow.
    package var digestedParts: Parts {
        [
            ("key", key), ("value", value), ("limit", limit), ("name", name), ("replaces", replaces),
            ("isShadow", isShadow),
            ("sharesCount", isShared), ("hasDetailedMetrics", hasDetailedMetrics),
        ]
    }
}

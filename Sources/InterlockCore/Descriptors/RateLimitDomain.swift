/// A domain of Envoy's rate limit service, with the rules for its descriptors.
package struct RateLimitDomain: Hashable, Sendable {
    package var name: String
    package var rules: [DescriptorRule]
    /// Whether each descriptor of a request takes independently, even if another descriptor is refused. By default, a
    /// request takes from all of its limits or is refused and takes nothing.
    package var isIndependent = false
    /// Whether refused requests also count, as in the reference implementation, so that a full window stays full.
    package var countsRefused = false
    /// Whether the domain refuses no request and only counts what it would refuse.
    package var isShadow = false
    /// The behavior while Redis is unreachable or does not reply in time.
    package var whenRedisIsDown = OutagePolicy.local
    /// The maximum number of descriptors with their own counters, at least 1. Beyond it, all descriptors that end at
    /// the same rule share one counter.
    package var maximumCounters = 100_000

    package init(name: String, rules: [DescriptorRule] = []) {
        self.name = name
        self.rules = rules
    }
}

extension RateLimitDomain: DigestedSetting {
    /// All settings except the name, which is stored next to the digest, and the rules, whose lines follow.
    package var digestedParts: Parts {
        [
            ("isIndependent", isIndependent), ("countsRefused", countsRefused), ("isShadow", isShadow),
            ("whenRedisIsDown", whenRedisIsDown), ("maximumCounters", maximumCounters),
        ]
    }

    /// A digest of the rules, like `ServiceDefinition.digest`. Sidecars compare it to detect that their rules differ.
    package var digest: String {
        TextDigest.of(digestedLines(except: Self.unset) + Self.lines(of: rules, at: ""))
    }

    private static func lines(of rules: [DescriptorRule], at path: String) -> [String] {
        rules.enumerated().flatMap { index, rule in
            let path = "\(path).\(index)"
            return rule.digestedLines(except: unsetRule).map { path + $0 } + lines(of: rule.rules, at: path)
        }
    }

    private static let unset = Set(RateLimitDomain(name: "").digestedLines())
    private static let unsetRule = Set(DescriptorRule(key: "").digestedLines())
}

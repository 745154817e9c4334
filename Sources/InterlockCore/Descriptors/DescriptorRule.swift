/// One entry of a rate limit descriptor, as Envoy sends it: `(remote_address, 10.0.0.1)`. Keys and values are compared
/// byte by byte.
package struct DescriptorEntry: Hashable, Sendable {
    /// The most entries of one descriptor, or of one quota bucket.
    package static let most = 64

    package var key: String
    package var value: String

    package init(key: String, value: String) {
        self.key = key
        self.value = value
    }

    package static func == (left: Self, right: Self) -> Bool {
        ExactText(left.key) == ExactText(right.key) && ExactText(left.value) == ExactText(right.value)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(ExactText(key))
        hasher.combine(ExactText(value))
    }
}

/// The values that a rule matches: a text in which each `*` matches any number of characters, including zero.
package struct DescriptorPattern: Hashable, Sendable {
    package let text: String
    /// The texts before, between and after the stars; a single part if there is no star.
    private let parts: [[UInt8]]

    package init(_ text: String) {
        self.text = text
        parts = text.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map(Array.init)
    }

    package var hasStars: Bool { parts.count > 1 }

    /// Returns whether the pattern matches `value`. O(length of the value × parts).
    package func matches(_ value: String) -> Bool {
        var rest = Substring(value).utf8
        guard hasStars else { return rest.elementsEqual(parts[0]) }
        guard rest.starts(with: parts[0]) else { return false }
        rest = rest.dropFirst(parts[0].count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let found = Self.firstEnd(of: part, in: rest) else { return false }
            rest = rest[found...]
        }
        let last = parts[parts.count - 1]
        return rest.count >= last.count && rest.suffix(last.count).elementsEqual(last)
    }

    /// Returns the index after the first `part` in `text`; `nil` if `text` does not contain it.
    private static func firstEnd(of part: [UInt8], in text: Substring.UTF8View) -> Substring.Index? {
        var start = text.startIndex
        while start < text.endIndex {
            let rest = text[start...]
            if rest.starts(with: part) { return text.index(start, offsetBy: part.count) }
            start = text.index(after: start)
        }
        return nil
    }
}

extension DescriptorPattern: DigestedSetting {
    package var digestedParts: Parts { [("text", text), ("parts", parts)] }
}

/// The limit of the descriptors that end at a rule.
package enum DescriptorLimit: Hashable, Sendable {
    /// All descriptors pass and are counted only in the metrics.
    case unlimited
    /// No descriptor passes. The window is only shown to callers; there is no counter.
    case blocked(window: Duration)
    /// A limited number of descriptors pass in each window. The limit's name is the last part of the counters' keys.
    case rate(LimitDefinition, isAligned: Bool)

    /// The window of a limit of 0 that names none.
    package static let blockedWindow = Duration.seconds(86_400)
}

extension DescriptorLimit: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .unlimited: []
        case .blocked(let window): [("blocked.window", window)]
        case .rate(let limit, let isAligned): [("rate..0", limit), ("rate.isAligned", isAligned)]
        }
    }
    /// The text of `unlimited`, the only case without parts.
    package var digestedText: String { "unlimited" }
}

/// A rule of a domain: the entry it matches, the limit of descriptors that end with that entry, and the rules for the
/// next entry.
package struct DescriptorRule: Hashable, Sendable {
    package var key: String
    /// The value to match; `nil` for any value. A value without stars takes precedence over patterns, and patterns over
    /// any value.
    package var value: DescriptorPattern?
    /// The limit of descriptors that end here; `nil` if they are not limited.
    package var limit: DescriptorLimit?
    /// The name that answers report and by which other rules replace this one.
    package var name: String?
    /// The names of rules that do not apply to a request that this rule matches.
    package var replaces: [String] = []
    /// Whether the rule only counts and reports what it would refuse. It then refuses no request.
    package var isShadow = false
    /// Whether all values that the pattern matches have one count together.
    package var sharesCount = false
    /// Whether the rule's metrics distinguish the values.
    package var hasDetailedMetrics = false
    package var rules: [DescriptorRule] = []

    package init(key: String, value: DescriptorPattern? = nil, limit: DescriptorLimit? = nil, rules: [DescriptorRule] = []) {
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
            ("key", key), ("value", value), ("limit", limit), ("name", name), ("replaces", replaces), ("isShadow", isShadow),
            ("sharesCount", sharesCount), ("hasDetailedMetrics", hasDetailedMetrics),
        ]
    }
}

/// The domains of Envoy's rate limit service, and the time limit of its answers.
package struct DomainSettings: Hashable, Sendable {
    package static let timeouts: ClosedRange<Duration> = .milliseconds(1) ... .seconds(60)

    package var definitions: [RateLimitDomain] = []
    /// The time after which a domain acts as if Redis were unreachable. Envoy waits 20 ms by default.
    package var timeout = Duration.milliseconds(15)

    package init() {}
}

/// A domain of Envoy's rate limit service, with the rules for its descriptors.
package struct RateLimitDomain: Hashable, Sendable {
    package var name: String
    package var rules: [DescriptorRule]
    /// Whether each descriptor of a request takes independently, even if another one is refused. By default, a request
    /// takes from all its limits or from none.
    package var isIndependent = false
    /// Whether refused requests also count, as in the reference implementation, so that a full window stays full.
    package var countsRefused = false
    /// Whether the domain refuses no request and only counts what it would refuse.
    package var isShadow = false
    /// The behavior while Redis is unreachable or does not answer in time.
    package var whenRedisIsDown = OutagePolicy.local
    /// The most descriptors that have counters of their own, at least 1. Beyond that, all descriptors that end at one
    /// rule have one counter together.
    package var maximumCounters = 100_000

    package init(name: String, rules: [DescriptorRule] = []) {
        self.name = name
        self.rules = rules
    }
}

extension RateLimitDomain: DigestedSetting {
    /// All settings except the name, which is written beside the digest, and the rules, whose lines follow.
    package var digestedParts: Parts {
        [
            ("isIndependent", isIndependent), ("countsRefused", countsRefused), ("isShadow", isShadow),
            ("whenRedisIsDown", whenRedisIsDown), ("maximumCounters", maximumCounters),
        ]
    }

    /// The digest by which sidecars detect that their rules of a domain differ, like `ServiceDefinition.digest`.
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

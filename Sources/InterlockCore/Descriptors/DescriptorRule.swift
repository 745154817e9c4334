/// One entry of a rate limit descriptor, as Envoy sends it: `(remote_address, 10.0.0.1)`. Texts are compared byte by byte.
package struct DescriptorEntry: Hashable, Sendable {
    /// Of one descriptor, or of one bucket of quotas.
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

/// What the values of an entry may be that a rule is for: a text in which each `*` stands for any number of characters, none included.
package struct DescriptorPattern: Hashable, Sendable {
    package let text: String
    /// What stands before, between and behind the stars; one part: there is no star.
    private let parts: [[UInt8]]

    package init(_ text: String) {
        self.text = text
        parts = text.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map(Array.init)
    }

    package var hasStars: Bool { parts.count > 1 }

    /// O(length of the value × parts): each part is looked for once, behind the one before it.
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

    /// Where the first `part` in `text` ends; `nil`: it has none.
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

/// What a rule does with the descriptors that end at it.
package enum DescriptorLimit: Hashable, Sendable {
    /// They pass and are counted in the metrics only.
    case unlimited
    /// None of them passes. The window is what callers are told; there is no counter.
    case blocked(window: Duration)
    /// At most so many pass in each window. Its name is the last part of the counters' keys.
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

/// A rule of a domain: which entry it is for, what holds for the descriptors that end with that entry, and the rules for the next one.
package struct DescriptorRule: Hashable, Sendable {
    package var key: String
    /// `nil`: any value. Without a star the one value it is; a rule for it comes before those with stars, and these before that for any.
    package var value: DescriptorPattern?
    /// `nil`: descriptors that end here are not limited.
    package var limit: DescriptorLimit?
    /// By which other rules replace it, and answers name it; `nil`: it has none.
    package var name: String?
    /// The names of rules that do not hold for a request which this one holds for.
    package var replaces: [String] = []
    /// It counts and reports what it would refuse, and refuses nobody.
    package var isShadow = false
    /// All values that its pattern matches have one count together.
    package var sharesCount = false
    /// Its metrics tell the values apart.
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

/// The domains of Envoy's rate limit service, and how long an answer about one may take.
package struct DomainSettings: Hashable, Sendable {
    package static let timeouts: ClosedRange<Duration> = .milliseconds(1) ... .seconds(60)

    package var definitions: [RateLimitDomain] = []
    /// Without Redis' answer until then each domain does as when it is away. Envoy waits for 20 ms unless it is told otherwise.
    package var timeout = Duration.milliseconds(15)

    package init() {}
}

/// A domain of Envoy's rate limit service: the rules that its descriptors are held against.
package struct RateLimitDomain: Hashable, Sendable {
    package var name: String
    package var rules: [DescriptorRule]
    /// Each descriptor of a request takes for itself, also when another one is refused. By default a request takes from all its limits
    /// or from none.
    package var isIndependent = false
    /// What is refused counts all the same, as the reference does it: it sees to it that a window once full stays so.
    package var countsRefused = false
    /// Nobody is refused; what would be is counted.
    package var isShadow = false
    /// What is answered while Redis cannot be reached, or is not heard of in time.
    package var whenRedisIsDown = OutagePolicy.local
    /// So many descriptors have counters of their own, at least 1: of those beyond, all that end at one rule share one.
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

    /// By which sidecars find out that they run with different rules of a domain, as with `ServiceDefinition.digest`.
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

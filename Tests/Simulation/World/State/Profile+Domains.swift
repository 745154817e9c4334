import Interlock
import InterlockCore
import InterlockJudge

/// A rule of a domain, with the limit by which checkers judge it.
struct DomainRule {
    var domain: RateLimitDomain
    var key: String
    /// The value that the rule matches. `nil` matches any value and counts each one separately, like the subjects of a
    /// limit.
    var value: String?
    var limit: LimitDefinition

    /// The rule's name in findings.
    var name: String { "\(domain.name).\(key)" }

    /// The descriptor entry that matches the rule.
    func entry(subject: Int?) -> DescriptorEntry {
        DescriptorEntry(key: key, value: value ?? "t\(subject ?? 0)")
    }
}

extension Profile {
    /// The rules of the domains, in the order of their numbers in the history.
    var domainRules: [DomainRule] {
        domains.definitions.flatMap { domain in
            domain.rules.compactMap { rule in
                guard case .rate(let limit, _)? = rule.limit else { return nil }
                return DomainRule(domain: domain, key: rule.key, value: rule.value?.text, limit: limit)
            }
        }
    }

    /// The number of the first domain rule in the history. The numbers of all services precede it.
    var firstDomainRule: Int { otherFleet > 0 ? 2 * services.count : services.count }

    /// Draws the domains of the first fleet and the number of their clients.
    /// - Parameter stream: a copy of the world's stream. These draws do not advance the original.
    mutating func drawDomains(_ stream: SeededRandom) {
        var source = stream
        var random = SeededRandom(seed: source.next() &+ 2)
        for _ in 0..<8 { _ = random.next() }
        guard random.happens(0.5) else { return }
        domains.definitions = (0..<Int.random(in: 1...2, using: &random)).map { Self.domain("d\($0)", random: &random) }
        // The timeout exceeds any round trip to Redis, so that only a fault makes Redis late.
        domains.timeout = .milliseconds(500)
        descriptorClients = Int.random(in: 2...6, using: &random)
    }

    private static func domain(_ name: String, random: inout SeededRandom) -> RateLimitDomain {
        let rules = (0..<Int.random(in: 1...3, using: &random)).map { number in
            let windowsInMilliseconds: [Int64] = [200, 1000, 2000, 10_000, 60_000]
            let windowMilliseconds = windowsInMilliseconds[
                Int.random(in: 0..<windowsInMilliseconds.count, using: &random)]
            let algorithms: [LimitAlgorithm] = [.fixed, .sliding, .gcra(burst: Int64.random(in: 2...6, using: &random))]
            let limit = LimitDefinition(
                name: "\(windowMilliseconds)ms", limit: Int64.random(in: 2...12, using: &random) * 3 + Int64(number),
                window: .milliseconds(windowMilliseconds), algorithm: algorithms[Int.random(in: 0..<3, using: &random)])
            // A rule that matches any value counts each one separately.
            let value = random.happens(0.5) ? DescriptorPattern("all") : nil
            return DescriptorRule(key: "k\(number)", value: value, limit: .rate(limit, isAligned: false))
        }
        var domain = RateLimitDomain(name: name, rules: rules)
        domain.isIndependent = random.happens(0.3)
        domain.whenRedisIsDown = random.happens(0.6) ? .local : random.happens(0.5) ? .deny : .allow
        return domain
    }
}

extension DomainRule {
    /// The rule as a history judges it: a service with one limit.
    var rules: ServiceRules {
        ServiceRules(
            name: name, limits: [LimitRule(limit, isPerSubject: value == nil)],
            whenRedisIsDown: OutagePolicyName(domain.whenRedisIsDown))
    }
}

extension LimitRule {
    init(_ limit: LimitDefinition, isPerSubject: Bool) {
        let (algorithm, burst): (Algorithm, Int64) =
            switch limit.algorithm {
            case .fixed: (.fixed, 0)
            case .sliding: (.sliding, 0)
            case .gcra(let burst): (.gcra, burst)
            }
        self.init(
            algorithm: algorithm, limit: limit.limit, windowMilliseconds: limit.windowMilliseconds, burst: burst,
            isPerSubject: isPerSubject)
    }
}

extension OutagePolicyName {
    init(_ policy: OutagePolicy) {
        self =
            switch policy {
            case .local: .local
            case .allow: .allow
            case .deny: .deny
            }
    }
}

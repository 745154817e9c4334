internal import CoreMetrics
internal import InterlockCore

/// What is counted for one domain: of each rule what it decided, and of rules with detailed metrics that by value, for a bounded number
/// of them.
final class DomainMetrics {
    /// So many values of all rules of a domain together are told apart; the rest are counted as `other`.
    private static let mostValues = 1000

    private final class Decisions {
        private let ok: Counter
        private let overLimit: Counter
        private let shadow: Counter
        private(set) var sum = DescriptorDecisions()

        init(domain: String, rule: String) {
            func counter(_ decision: String) -> Counter {
                Counter(
                    label: "interlock_descriptor_decisions_total",
                    dimensions: [("domain", domain), ("rule", rule), ("decision", decision)])
            }
            ok = counter("ok")
            overLimit = counter("over_limit")
            shadow = counter("shadow")
        }

        /// - Parameters:
        ///   - isRefused: the whole request was. If not, a status that is over its limit is one of a domain that is a shadow.
        ///   - inSumOnly: its metrics tell values apart.
        func count(_ status: DescriptorStatus, isRefused: Bool, inSumOnly: Bool = false) {
            let counter: Counter
            if status.isOverLimit && isRefused {
                counter = overLimit
                sum.overLimit += 1
            } else if status.isOverLimit || status.isShadowRefusal {
                counter = shadow
                sum.shadow += 1
            } else {
                counter = ok
                sum.ok += 1
            }
            if !inSumOnly { counter.increment() }
        }

        func destroy() { for counter in [ok, overLimit, shadow] { counter.destroy() } }
    }

    private let domain: String
    private let rules: [DescriptorIndex.Rule: Decisions]
    private var values: [String: Decisions] = [:]
    private let unmatched: Counter
    /// Requests that were answered without Redis, because it was away or late.
    let alone: Counter
    let failed: Counter
    let counters: Gauge

    init(domain: String, index: DescriptorIndex) {
        self.domain = domain
        rules = Dictionary(
            index.rules.map { ($0, Decisions(domain: domain, rule: $0.path)) }, uniquingKeysWith: { first, _ in first })
        unmatched = Counter(label: "interlock_descriptors_unmatched_total", dimensions: [("domain", domain)])
        alone = Counter(label: "interlock_descriptor_requests_alone_total", dimensions: [("domain", domain)])
        failed = Counter(label: "interlock_descriptor_requests_failed_total", dimensions: [("domain", domain)])
        counters = Gauge(label: "interlock_descriptor_counters", dimensions: [("domain", domain)])
    }

    /// - Parameter asks: what was decided about.
    func count(_ answer: DescriptorAnswer, of asks: [DescriptorAsk]) {
        for (status, ask) in zip(answer.statuses, asks) {
            guard let rule = status.rule else {
                unmatched.increment()
                continue
            }
            guard rule.rule.hasDetailedMetrics else {
                // Of one that a reload has replaced nothing is counted.
                rules[rule]?.count(status, isRefused: answer.isOverLimit)
                continue
            }
            rules[rule]?.count(status, isRefused: answer.isOverLimit, inSumOnly: true)
            var name = CounterName()
            for entry in ask.entries { name.append(key: entry.key, value: entry.value) }
            decisions(ofValue: name.text).count(status, isRefused: answer.isOverLimit)
        }
    }

    func decisions(of rule: DescriptorIndex.Rule) -> DescriptorDecisions { rules[rule]?.sum ?? DescriptorDecisions() }

    private func decisions(ofValue value: String) -> Decisions {
        if let known = values[value] { return known }
        let name = values.count < Self.mostValues ? value : "other"
        if let known = values[name] { return known }
        let new = Decisions(domain: domain, rule: name)
        values[name] = new
        return new
    }

    /// The domain's rules are others, or it is there no more.
    func destroy() {
        for decisions in Array(rules.values) + Array(values.values) { decisions.destroy() }
        for counter in [unmatched, alone, failed] { counter.destroy() }
        counters.destroy()
    }
}

internal import CoreMetrics
internal import InterlockCore

/// The metrics of one domain: the decisions of each rule and, for rules with detailed metrics, of each value, up to a
/// maximum number of values.
final class DomainMetrics {
    /// The maximum number of values that are counted separately, over all rules of a domain. Further values are counted
    /// as `other`.
    private static let maximumValues = 1000

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

        /// Counts the decision on one descriptor.
        /// - Parameters:
        ///   - isRefused: whether the whole request was refused. A status over its limit in a request that was not
        ///     refused belongs to a shadow domain.
        ///   - skipsCounter: whether the rule has a counter for each value instead.
        func count(_ status: DescriptorStatus, isRefused: Bool, skipsCounter: Bool = false) {
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
            if !skipsCounter { counter.increment() }
        }

        func destroy() { for counter in [ok, overLimit, shadow] { counter.destroy() } }
    }

    private let domain: String
    private let rules: [DescriptorIndex.Rule: Decisions]
    private var values: [String: Decisions] = [:]
    private let unmatched: Counter
    /// The number of requests that were decided without Redis, because it was unreachable or late.
    let decidedLocally: Counter
    let failed: Counter
    let counters: Gauge

    init(domain: String, index: DescriptorIndex) {
        self.domain = domain
        rules = Dictionary(
            index.rules.map { ($0, Decisions(domain: domain, rule: $0.path)) }, uniquingKeysWith: { first, _ in first })
        unmatched = Counter(label: "interlock_descriptors_unmatched_total", dimensions: [("domain", domain)])
        decidedLocally = Counter(label: "interlock_descriptor_requests_local_total", dimensions: [("domain", domain)])
        failed = Counter(label: "interlock_descriptor_requests_failed_total", dimensions: [("domain", domain)])
        counters = Gauge(label: "interlock_descriptor_counters", dimensions: [("domain", domain)])
    }

    /// Counts the decision on a request.
    /// - Parameter requested: the descriptors that were decided, in the order of the statuses.
    func count(_ decision: RequestDecision, of requested: [RequestedDescriptor]) {
        for (status, descriptor) in zip(decision.statuses, requested) {
            guard let rule = status.rule else {
                unmatched.increment()
                continue
            }
            guard rule.rule.hasDetailedMetrics else {
                // A reload may have replaced the rule, which is then not counted.
                rules[rule]?.count(status, isRefused: decision.isOverLimit)
                continue
            }
            rules[rule]?.count(status, isRefused: decision.isOverLimit, skipsCounter: true)
            var name = CounterName()
            for entry in descriptor.entries { name.append(key: entry.key, value: entry.value) }
            decisions(ofValue: name.text).count(status, isRefused: decision.isOverLimit)
        }
    }

    func decisions(of rule: DescriptorIndex.Rule) -> DescriptorDecisions { rules[rule]?.sum ?? DescriptorDecisions() }

    private func decisions(ofValue value: String) -> Decisions {
        if let existing = values[value] { return existing }
        let name = values.count < Self.maximumValues ? value : "other"
        if let existing = values[name] { return existing }
        let decisions = Decisions(domain: domain, rule: name)
        values[name] = decisions
        return decisions
    }

    /// Removes the metrics, because the domain was removed or its rules were replaced.
    func destroy() {
        for decisions in Array(rules.values) + Array(values.values) { decisions.destroy() }
        for counter in [unmatched, decidedLocally, failed] { counter.destroy() }
        counters.destroy()
    }
}

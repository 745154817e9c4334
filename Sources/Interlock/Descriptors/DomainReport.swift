package import InterlockCore

/// A domain as this sidecar knows it.
package struct DomainReport: Sendable {
    /// A rule, and how often it decided in what way since the sidecar began, or since the rules were replaced.
    package struct Rule: Sendable {
        /// `tenant,path=/api/*`.
        package var path: String
        package var rule: DescriptorRule
        package var decisions: DescriptorDecisions
    }

    package var domain: RateLimitDomain
    package var rules: [Rule]
    /// Combinations of values with counts of their own, as far as it knows.
    package var counters: Int
}

/// How often something was decided.
package struct DescriptorDecisions: Sendable {
    package var ok = 0
    package var overLimit = 0
    /// A shadow would have refused it.
    package var shadow = 0
}

extension LimitAnswer {
    init(_ status: DescriptorStatus, of rule: DescriptorIndex.Rule, isShadow: Bool) {
        let name = rule.rule.name ?? rule.path
        switch status.bound {
        case .none, .unlimited: self.init(.taken, limit: 0, remaining: 0, resetAfter: 0, limitName: name)
        case .limited(0, _):
            self.init(
                isShadow ? .taken : .neverPossible, limit: 0, remaining: 0, resetAfter: status.resetAfter,
                limitName: name)
        case .limited(let limit, _):
            self.init(
                isShadow || status.remaining > 0 ? .taken : .refused(retryAfter: status.retryAfter ?? status.resetAfter),
                limit: limit, remaining: status.remaining, resetAfter: status.resetAfter, limitName: name)
        }
    }
}

package import InterlockCore

/// A domain as this sidecar knows it.
package struct DomainReport: Sendable {
    /// A rule, and the number of its decisions since the sidecar started or the rules were replaced.
    package struct Rule: Sendable {
        /// The path of the rule, for example `tenant,path=/api/*`.
        package var path: String
        package var rule: DescriptorRule
        package var decisions: DescriptorDecisions
    }

    package var domain: RateLimitDomain
    package var rules: [Rule]
    /// The number of counters that this sidecar knows: one for each combination of values.
    package var counters: Int
}

/// The number of decisions of each kind.
package struct DescriptorDecisions: Sendable {
    package var ok = 0
    package var overLimit = 0
    /// The number of requests that a shadow rule or domain would have refused.
    package var shadow = 0
}

extension CallDecision {
    init(_ status: DescriptorStatus, of rule: DescriptorIndex.Rule, isShadow: Bool) {
        let name = rule.rule.name ?? rule.path
        switch status.bound {
        case .none, .unlimited: self.init(.taken, limit: 0, remaining: 0, resetAfter: 0, limitName: name)
        case .limited(0, _):
            self.init(
                isShadow ? .taken : .neverSatisfiable, limit: 0, remaining: 0, resetAfter: status.resetAfter,
                limitName: name)
        case .limited(let limit, _):
            self.init(
                isShadow || status.remaining > 0 ? .taken : .refused(retryAfter: status.retryAfter ?? status.resetAfter),
                limit: limit, remaining: status.remaining, resetAfter: status.resetAfter, limitName: name)
        }
    }
}

package import InterlockCore

/// The state of a domain that this sidecar knows.
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
    /// The number of counters that this sidecar knows. Each combination of values has its own counter.
    package var counterCount: Int
}

/// The number of decisions of each kind.
package struct DescriptorDecisions: Sendable {
    package var ok = 0
    package var overLimit = 0
    /// The number of requests that a shadow rule or domain would have refused.
    package var shadow = 0
}

extension CallDecision {
    /// Creates the decision on a call from the status of its descriptor.
    init(_ status: DescriptorStatus, of rule: DescriptorIndex.Rule, isShadow: Bool) {
        let name = rule.rule.name ?? rule.path
        switch status.bound {
        case .none, .unlimited: self.init(.taken, limit: 0, remaining: 0, resetAfterMilliseconds: 0, limitName: name)
        case .limited(0, _):
            self.init(
                isShadow ? .taken : .neverSatisfiable, limit: 0, remaining: 0,
                resetAfterMilliseconds: status.resetAfterMilliseconds,
                limitName: name)
        case .limited(let limit, _):
            self.init(
                isShadow || status.remaining > 0
                    ? .taken
                    : .refused(retryAfterMilliseconds: status.retryAfterMilliseconds ?? status.resetAfterMilliseconds),
                limit: limit, remaining: status.remaining, resetAfterMilliseconds: status.resetAfterMilliseconds, limitName: name)
        }
    }
}

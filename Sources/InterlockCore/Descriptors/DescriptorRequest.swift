/// One descriptor of a request, with its cost.
package struct DescriptorAsk: Hashable, Sendable {
    /// A limit that the caller supplies in place of the rule's limit.
    package struct Override: Hashable, Sendable {
        /// 0 lets nothing pass.
        package var limit: Int64
        package var window: Duration
        /// The limit's name in the counter's key: its window, `1m`.
        package var name: String

        package init(limit: Int64, window: Duration, name: String) {
            self.limit = limit
            self.window = window
            self.name = name
        }
    }

    package var entries: [DescriptorEntry]
    /// The amount to take; 0 only reads, and a negative cost is a refund.
    package var cost: Int64
    package var override: Override?

    package init(entries: [DescriptorEntry], cost: Int64 = 1, override: Override? = nil) {
        self.entries = entries
        self.cost = cost
        self.override = override
    }
}

/// The decision about one descriptor.
package struct DescriptorStatus: Hashable, Sendable {
    package enum Bound: Hashable, Sendable {
        /// No rule matches, or another rule of the request replaces the matching one.
        case none
        case unlimited
        case limited(limit: Int64, window: Duration)
    }

    package var isOverLimit: Bool
    package var bound: Bound
    /// The matching rule; `nil` if no rule matches.
    package var rule: DescriptorIndex.Rule?
    /// The amount that is left.
    package var remaining: Int64
    /// Milliseconds until the full limit is available again, or until a window that has not begun would end. 0 if
    /// nothing is taken from a limit without such windows, or if the counter was not read.
    package var resetAfter: Int64
    /// Milliseconds until the cost fits if no other call takes any; `nil` if it was taken, or if the wait is unknown.
    package var retryAfter: Int64?
    /// Whether a shadow limit would have refused the descriptor.
    package var isShadowRefusal = false
    /// Whether the limit is a shadow. Callers are not shown a shadow limit, since it refuses no request.
    package var isShadow: Bool

    package init(isOverLimit: Bool, bound: Bound, rule: DescriptorIndex.Rule?, remaining: Int64 = 0, resetAfter: Int64 = 0) {
        self.isOverLimit = isOverLimit
        self.bound = bound
        self.rule = rule
        self.remaining = remaining
        self.resetAfter = resetAfter
        isShadow = rule?.rule.isShadow ?? false
    }
}

/// The decision about a request.
package struct DescriptorAnswer: Hashable, Sendable {
    /// The reason for a refusal.
    package enum Cause: String, Sendable {
        /// A limit is reached.
        case limit
        /// Redis is unreachable or late, and this sidecar's quota of a limit is used up.
        case local
        /// Redis is unreachable or late, and the domain refuses everything in that case. The amount left is unknown.
        case redis
    }

    /// Whether the request is over a limit that refuses it.
    package var isOverLimit: Bool
    /// The status of each descriptor, in order.
    package var statuses: [DescriptorStatus]
    /// The reason, if the request is refused.
    package var cause: Cause

    package init(isOverLimit: Bool, statuses: [DescriptorStatus], cause: Cause = .limit) {
        self.isOverLimit = isOverLimit
        self.statuses = statuses
        self.cause = cause
    }
}

extension DescriptorAnswer {
    /// The status of the descriptor whose limit binds: one over its limit, otherwise the one with the least left; `nil`
    /// if none is limited. Shadow limits never bind.
    package var binding: DescriptorStatus? {
        var found: DescriptorStatus?
        for status in statuses {
            guard case .limited = status.bound, !status.isShadow else { continue }
            guard let known = found else {
                found = status
                continue
            }
            let isTighter = status.isOverLimit == known.isOverLimit && status.remaining < known.remaining
            if isTighter || status.isOverLimit && !known.isOverLimit { found = status }
        }
        return found
    }
}

/// A request's descriptors, each with the rule that it matches.
package struct DescriptorPlan: Hashable, Sendable {
    /// The amount that a descriptor takes from its counter.
    package struct Charge: Hashable, Sendable {
        /// The counter's name; together with the limit's name, it forms the counter's key.
        package var counter: ExactText
        package var limit: LimitDefinition
        package var isAligned: Bool
        package var cost: Int64
    }

    package struct Item: Hashable, Sendable {
        /// The answer if the script does not decide the descriptor.
        package var status: DescriptorStatus
        /// `nil` if the script does not decide the descriptor.
        package var charge: Charge?
    }

    package var items: [Item]

    package var asks: Bool { items.contains { $0.charge != nil } }
}

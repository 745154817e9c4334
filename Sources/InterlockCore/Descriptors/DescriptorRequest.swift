/// One descriptor of a request, and how much it asks for.
package struct DescriptorAsk: Hashable, Sendable {
    /// A limit that the asker brings along, in place of that of the rule.
    package struct Override: Hashable, Sendable {
        /// 0: nothing passes.
        package var limit: Int64
        package var window: Duration
        /// What the limit is called in the counter's key: its window, `1m`.
        package var name: String

        package init(limit: Int64, window: Duration, name: String) {
            self.limit = limit
            self.window = window
            self.name = name
        }
    }

    package var entries: [DescriptorEntry]
    /// How much to take; 0 looks without taking, less than 0 gives back.
    package var cost: Int64
    package var override: Override?

    package init(entries: [DescriptorEntry], cost: Int64 = 1, override: Override? = nil) {
        self.entries = entries
        self.cost = cost
        self.override = override
    }
}

/// What was decided about one descriptor.
package struct DescriptorStatus: Hashable, Sendable {
    package enum Bound: Hashable, Sendable {
        /// No rule is for it, or one that does not hold.
        case none
        case unlimited
        case limited(limit: Int64, window: Duration)
    }

    package var isOverLimit: Bool
    package var bound: Bound
    /// `nil`: no rule is for it.
    package var rule: DescriptorIndex.Rule?
    /// What can be taken still.
    package var remaining: Int64
    /// Milliseconds until all of it can be taken again, or until a window that has not begun would end; 0: nothing is taken of a limit
    /// without such windows, or it was not looked at.
    package var resetAfter: Int64
    /// The milliseconds until the cost fits, if no other call takes any; `nil` if it was taken, or that is not known.
    package var retryAfter: Int64?
    /// A shadow's rule would have refused it.
    package var isShadowRefusal = false
    /// The limit is a shadow: it is not reported to callers, since it binds none of them.
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

/// What was decided about a request.
package struct DescriptorAnswer: Hashable, Sendable {
    /// Why a request is refused.
    package enum Cause: String, Sendable {
        /// A limit is reached.
        case limit
        /// Redis is away, or late, and this sidecar's share of a limit is used up.
        case local
        /// Redis is away, or late, and the domain lets nothing pass then: of what is left nothing is known.
        case redis
    }

    /// It is over one of its limits that refuse.
    package var isOverLimit: Bool
    /// Of each descriptor in turn.
    package var statuses: [DescriptorStatus]
    /// How it was decided: if it is refused, why.
    package var cause: Cause

    package init(isOverLimit: Bool, statuses: [DescriptorStatus], cause: Cause = .limit) {
        self.isOverLimit = isOverLimit
        self.statuses = statuses
        self.cause = cause
    }
}

extension DescriptorAnswer {
    /// The descriptor whose limit binds: one that is over it, else the one with the least left; `nil`: none is limited. A shadow binds
    /// nobody.
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

/// A request's descriptors, each with the rule it meets.
package struct DescriptorPlan: Hashable, Sendable {
    /// A descriptor that there is something to take for.
    package struct Charge: Hashable, Sendable {
        /// Its counter's name; with the limit's, it is the counter's key.
        package var counter: ExactText
        package var limit: LimitDefinition
        package var isAligned: Bool
        package var cost: Int64
    }

    package struct Item: Hashable, Sendable {
        /// What is answered when it is not asked about.
        package var status: DescriptorStatus
        /// `nil`: it is not asked about.
        package var charge: Charge?
    }

    package var items: [Item]

    package var asks: Bool { items.contains { $0.charge != nil } }
}

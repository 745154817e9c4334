/// The decision about one descriptor.
package struct DescriptorStatus: Hashable, Sendable {
    /// The limit that applies to a descriptor.
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
    /// The milliseconds until the full limit is available. For a fixed window: until the window ends, or a whole window
    /// if none has begun. 0 if nothing is taken, or if the counter was not read.
    package var resetAfterMilliseconds: Int64
    /// The milliseconds until the cost fits if no other call takes anything; `nil` if the cost was taken, or if the
    /// wait is unknown.
    package var retryAfterMilliseconds: Int64?
    /// Whether a shadow limit would have refused the descriptor.
    package var isShadowRefusal = false
    /// Whether the limit is a shadow. Callers are not shown a shadow limit, because it refuses no request.
    package var isShadow: Bool

    package init(
        isOverLimit: Bool, bound: Bound, rule: DescriptorIndex.Rule?, remaining: Int64 = 0, resetAfterMilliseconds: Int64 = 0
    ) {
        self.isOverLimit = isOverLimit
        self.bound = bound
        self.rule = rule
        self.remaining = remaining
        self.resetAfterMilliseconds = resetAfterMilliseconds
        isShadow = rule?.rule.isShadow ?? false
    }
}

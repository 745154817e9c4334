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

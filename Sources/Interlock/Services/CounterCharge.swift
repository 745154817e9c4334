package import InterlockCore

/// An amount that was taken from one counter, with the data that a refund needs.
package struct CounterCharge: Hashable, Sendable {
    package var key: String
    package var limit: LimitDefinition
    /// The limit's index among the service's limits.
    package var definitionIndex: Int
    package var subject: String?
    package var cost: Int64
    /// The window from which the amount was taken, by the Redis clock. For a fixed window: its end, in milliseconds.
    /// For a sliding window: the time of the take, in microseconds. For `gcra`: the time when the limit will have
    /// recovered the amount, in microseconds.
    package var windowTime: Int64

    package init(
        key: String, limit: LimitDefinition, definitionIndex: Int, subject: String?, cost: Int64, windowTime: Int64
    ) {
        self.key = key
        self.limit = limit
        self.definitionIndex = definitionIndex
        self.subject = subject
        self.cost = cost
        self.windowTime = windowTime
    }
}

package import InterlockCore

/// Something taken from one counter, so that it can be given back.
package struct TakenShare: Hashable, Sendable {
    package var key: String
    package var limit: LimitDefinition
    /// The limit's place among the service's.
    package var definition: Int
    package var subject: String?
    package var cost: Int64
    /// Which window it was taken from, by Redis' time: when the fixed window ends, in milliseconds; when it was taken from a
    /// sliding window, in microseconds; until when a `gcra` limit has not got it back by itself, in microseconds.
    package var since: Int64

    package init(
        key: String, limit: LimitDefinition, definition: Int, subject: String?, cost: Int64, since: Int64
    ) {
        self.key = key
        self.limit = limit
        self.definition = definition
        self.subject = subject
        self.cost = cost
        self.since = since
    }
}

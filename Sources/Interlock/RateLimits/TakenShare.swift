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

extension [TakenShare] {
    /// How far back one of the same window is looked for: calls that travelled together follow one another.
    private static var reach: Int { 8 }

    /// Adds it to one that was taken from the same window of the same counter, if there is one nearby.
    mutating func add(_ share: TakenShare) {
        let place = suffix(Self.reach).lastIndex {
            $0.since == share.since && $0.definition == share.definition && $0.key == share.key && $0.limit == share.limit
        }
        if let place { self[place].cost += share.cost } else { append(share) }
    }
}

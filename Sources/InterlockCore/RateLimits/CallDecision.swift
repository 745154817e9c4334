/// The decision of a service's limits about one call, with the numbers of the limit that binds.
package struct CallDecision: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The call is granted, and its cost is counted.
        case taken
        /// The same call can be granted after `retryAfterMilliseconds`.
        case refused(retryAfterMilliseconds: Int64)
        /// The cost exceeds the limit's capacity, so the call can never be granted.
        case neverSatisfiable
    }

    package var outcome: Outcome
    /// The total cost that the binding limit allows.
    package var limit: Int64
    /// The part of the binding limit that is left.
    package var remaining: Int64
    /// The milliseconds until the binding limit has its full capacity again.
    package var resetAfterMilliseconds: Int64
    /// The name of the binding limit at the time of the decision; `nil` if no limit binds. A reload may have removed it
    /// since.
    package var limitName: String?

    package init(_ outcome: Outcome, limit: Int64, remaining: Int64, resetAfterMilliseconds: Int64, limitName: String?) {
        self.outcome = outcome
        self.limit = limit
        self.remaining = remaining
        self.resetAfterMilliseconds = resetAfterMilliseconds
        self.limitName = limitName
    }

    /// The decision about a call to which no limit applies.
    package static let unlimited = CallDecision(.taken, limit: 0, remaining: 0, resetAfterMilliseconds: 0, limitName: nil)

    package var isAllowed: Bool { outcome == .taken }

    /// The wait in milliseconds; `nil` unless the call was refused.
    package var retryAfterMilliseconds: Int64? {
        if case .refused(let retryAfterMilliseconds) = outcome { retryAfterMilliseconds } else { nil }
    }

    /// The wait; `nil` unless the call was refused.
    var wait: Duration? { retryAfterMilliseconds.map { .milliseconds($0) } }
    /// The time until the binding limit has its full capacity again.
    var resetTime: Duration { .milliseconds(resetAfterMilliseconds) }

    /// The wait in milliseconds, as replies and JSON report it: -1 unless the call was refused.
    package var reportedRetryAfterMilliseconds: Int64 { retryAfterMilliseconds ?? -1 }
}

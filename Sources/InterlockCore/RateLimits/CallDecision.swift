/// The decision of a limit about one call, with the numbers of the window that binds.
package struct CallDecision: Hashable, Sendable {
    package enum Outcome: Hashable, Sendable {
        case taken
        /// The same call can be granted after `retryAfter` milliseconds.
        case refused(retryAfter: Int64)
        /// The cost exceeds the limit's capacity, so the call can never be granted.
        case neverSatisfiable
    }

    package var outcome: Outcome
    /// The amount that the binding limit allows.
    package var limit: Int64
    /// The amount that is left in the binding window.
    package var remaining: Int64
    /// Milliseconds until the binding window has its full capacity again.
    package var resetAfter: Int64
    /// The name of the binding limit at the time of the decision; `nil` if no limit binds. A reload may have removed it
    /// since.
    package var limitName: String?

    package init(_ outcome: Outcome, limit: Int64, remaining: Int64, resetAfter: Int64, limitName: String?) {
        self.outcome = outcome
        self.limit = limit
        self.remaining = remaining
        self.resetAfter = resetAfter
        self.limitName = limitName
    }

    /// The decision about a call to which no limit applies.
    package static let unlimited = CallDecision(.taken, limit: 0, remaining: 0, resetAfter: 0, limitName: nil)

    package var isAllowed: Bool { outcome == .taken }

    /// The wait in milliseconds; `nil` unless the call was refused.
    package var retryAfter: Int64? { if case .refused(let retryAfter) = outcome { retryAfter } else { nil } }

    /// The wait as replies and JSON report it: -1 unless the call was refused.
    package var reportedRetryAfter: Int64 { retryAfter ?? -1 }
}

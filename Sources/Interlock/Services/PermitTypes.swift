public import InterlockCore

/// 128 random bits that name a permit.
package struct PermitID: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    init(_ bits: (UInt64, UInt64)) {
        (high, low) = bits
    }

    /// Reads the 32 hexadecimal digits of `description`; `nil` when it is anything else.
    package init?(_ text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }),
            let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.high = high
        self.low = low
    }

    package var description: String { OwnerToken.hexadecimal(high) + OwnerToken.hexadecimal(low) }
}

/// The answer to a request to call a service.
package enum PermitAnswer: Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The breaker is open.
        case open
        /// A limit is reached.
        case limited
        /// Too many calls are under way.
        case busy
    }

    case granted(PermitID, state: BreakerSnapshot.State)
    /// `retryAfter` is in milliseconds; -1: nobody knows.
    case refused(Reason, state: BreakerSnapshot.State, retryAfter: Int64)
    case failed(InterlockError)
}

/// The outcome of a call, as its caller reports it.
public struct OutcomeReport: Sendable {
    /// Success, failure, or nothing to say.
    public var outcome: Outcome
    /// How long the call took; `nil`: not told.
    public var latency: Duration?
    /// The HTTP status of the answer; the breaker's settings know which are failures.
    public var status: Int?
    /// How long the service asked to be left alone; `nil`: it did not.
    public var retryAfter: Duration?
    /// Whether the caller abandoned the call. It then counts as slow if it had taken that long, and otherwise not at
    /// all.
    package var isUnfinished = false

    /// A report; what is left out is not told.
    public init(outcome: Outcome, latency: Duration? = nil, status: Int? = nil, retryAfter: Duration? = nil) {
        self.outcome = outcome
        self.latency = latency
        self.status = status
        self.retryAfter = retryAfter
    }

    package init(
        outcome: Outcome, latencyMilliseconds: Int64?, status: Int? = nil, retryAfterMilliseconds: Int64? = nil
    ) {
        self.init(
            outcome: outcome, latency: latencyMilliseconds.map { .milliseconds($0) }, status: status,
            retryAfter: retryAfterMilliseconds.map { .milliseconds($0) })
    }

    package init(outcome: Outcome, status: Int, retryAfterMilliseconds: Int64) {
        self.init(outcome: outcome, status: status, retryAfter: .milliseconds(retryAfterMilliseconds))
    }

    /// Returns the report of a call that was abandoned.
    package static func unfinished(afterMilliseconds milliseconds: Int64?) -> OutcomeReport {
        var report = OutcomeReport(outcome: .ignore, latencyMilliseconds: milliseconds)
        report.isUnfinished = true
        return report
    }

    package var latencyMilliseconds: Int64? { latency?.wholeMilliseconds }
    package var retryAfterMilliseconds: Int64? { retryAfter?.wholeMilliseconds }
}

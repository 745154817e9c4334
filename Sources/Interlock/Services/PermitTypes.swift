public import InterlockCore

/// 128 random bits that name a permit.
public struct PermitID: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    init(_ bits: (UInt64, UInt64)) {
        (high, low) = bits
    }

    /// Reads the 32 hexadecimal digits of `description`; `nil` when it is anything else.
    public init?(_ text: String) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Character(UnicodeScalar($0)).isHexDigit }),
            let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.high = high
        self.low = low
    }

    public var description: String { OwnerToken.hexadecimal(high) + OwnerToken.hexadecimal(low) }
}

/// The answer to a request to call a service.
public enum PermitAnswer: Sendable {
    public enum Reason: String, CaseIterable, Sendable {
        /// The breaker is open.
        case open
        /// A limit is reached.
        case limited
        /// Too many calls are under way.
        case busy
    }

    case granted(PermitID, state: BreakerSnapshot.State)
    /// `retryAfter` is in milliseconds; -1: no wait can help.
    case refused(Reason, state: BreakerSnapshot.State, retryAfter: Int64)
    case failed(InterlockError)
}

/// The outcome of a call, as its caller reports it.
public struct OutcomeReport: Sendable {
    public var outcome: Outcome
    public var latencyMilliseconds: Int64?
    /// The HTTP status of the answer.
    public var status: Int?
    /// How long the upstream asked to be left alone, in milliseconds.
    public var retryAfterMilliseconds: Int64?

    public init(
        outcome: Outcome, latencyMilliseconds: Int64? = nil, status: Int? = nil, retryAfterMilliseconds: Int64? = nil
    ) {
        self.outcome = outcome
        self.latencyMilliseconds = latencyMilliseconds
        self.status = status
        self.retryAfterMilliseconds = retryAfterMilliseconds
    }
}

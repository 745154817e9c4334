/// The reason for a sidecar's refusal.
package enum Refusal: Hashable, Sendable, Codable {
    /// Another client holds the lock.
    case held
    /// The token no longer holds the lease.
    case lost
    /// A limit is used up. The time is negative if the call can never be granted.
    case limited(retryAfterMilliseconds: Int64)
    /// The breaker is open. The time is negative if unknown.
    case open(retryAfterMilliseconds: Int64)
    /// Too many calls are active or waiting. The time is negative if unknown.
    case busy(retryAfterMilliseconds: Int64)
    /// Any other refusal, identified by its first word.
    case other(String)

    /// The refusal's name in reports.
    package var name: String {
        switch self {
        case .held: "held"
        case .lost: "lost"
        case .limited: "limited"
        case .open: "open"
        case .busy: "busy"
        case .other(let word): word
        }
    }
}

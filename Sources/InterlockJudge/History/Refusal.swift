/// Why the sidecar refused.
package enum Refusal: Hashable, Sendable, Codable {
    /// Another client holds the lock.
    case held
    /// The token no longer holds the lease.
    case lost
    /// A limit is used up. In ms; negative if the call can never be granted.
    case limited(retryAfter: Int64)
    /// The breaker is open. In ms.
    case open(retryAfter: Int64)
    /// Too many calls are under way or waiting.
    case busy(retryAfter: Int64)
    /// Any other refusal: its first word.
    case other(String)

    /// The refusal as reports name it.
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

package import InterlockCore

/// The answer to an operation that was carried out.
package enum Success: Hashable, Sendable, Codable {
    /// `validFor` in ms, counted from the *request*: a client cannot know when the sidecar granted the lease.
    case granted(lease: LeaseID, fence: Int64, validFor: Int64)
    /// `validFor` in ms, counted likewise.
    case renewed(validFor: Int64)
    case released
    /// The window that limits most: its limit, what remains, and in how many ms it is full again.
    case taken(limit: Int64, remaining: Int64, resetAfter: Int64)
    /// `state` is the breaker's state as the sidecar sees it.
    case permitted(PermitNumber, state: BreakerSnapshot.State)
    case reported(state: BreakerSnapshot.State)
    /// The upstream answered through the proxy.
    case passed(status: Int)
}

package import InterlockCore

/// The result of a successful operation.
package enum OperationSuccess: Hashable, Sendable, Codable {
    /// A lease was granted. `validForMilliseconds` counts from the *request*: a client cannot know when the sidecar
    /// granted the lease.
    case granted(lease: LeaseID, fence: Int64, validForMilliseconds: Int64)
    /// A lease was renewed. `validForMilliseconds` also counts from the request.
    case renewed(validForMilliseconds: Int64)
    case released
    /// The limits granted the cost. The values describe the window with the smallest remaining amount: its limit, that
    /// amount, and the time until the full limit is available again.
    case taken(limit: Int64, remaining: Int64, resetAfterMilliseconds: Int64)
    /// A permit was granted. `state` is the breaker's state as the sidecar sees it.
    case permitted(PermitNumber, state: BreakerSnapshot.State)
    case reported(state: BreakerSnapshot.State)
    /// The upstream answered through the proxy.
    case passed(status: Int)
}

package import InterlockCore

/// The result of a successful operation.
package enum OperationSuccess: Hashable, Sendable, Codable {
    /// A lease was granted. `validFor` is in milliseconds, counted from the *request*: a client cannot know when the
    /// sidecar granted the lease.
    case granted(lease: LeaseID, fence: Int64, validFor: Int64)
    /// A lease was renewed. `validFor` is in milliseconds, also counted from the request.
    case renewed(validFor: Int64)
    case released
    /// The cost was taken. Describes the window with the smallest remaining amount: its limit, that amount, and the
    /// time in milliseconds until the limit is available in full again.
    case taken(limit: Int64, remaining: Int64, resetAfter: Int64)
    /// A permit was granted. `state` is the breaker's state as the sidecar sees it.
    case permitted(PermitNumber, state: BreakerSnapshot.State)
    case reported(state: BreakerSnapshot.State)
    /// The upstream answered through the proxy.
    case passed(status: Int)
}

/// The result of a request to call a service.
package enum PermitResult: Sendable {
    /// The reason for a refusal.
    package enum Reason: String, CaseIterable, Sendable {
        /// The breaker is open.
        case open
        /// A limit is reached.
        case limited
        /// Too many calls are in flight.
        case busy
    }

    case granted(PermitID, state: BreakerSnapshot.State)
    /// A refusal; `retryAfterMilliseconds` is -1 if unknown.
    case refused(Reason, state: BreakerSnapshot.State, retryAfterMilliseconds: Int64)
    case failed(InterlockError)
}

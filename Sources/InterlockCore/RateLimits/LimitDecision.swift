/// The decision of a service's limits about a call, with the numbers of the limit that binds.
public struct LimitDecision: Hashable, Sendable {
    /// Whether the call may be made. A `take` counts it; a `peek` does not.
    public var isAllowed: Bool
    /// The name of the limit that binds; `nil` if the service has no limits, or if a sidecar of 0.1.0 decided.
    public var limitName: String?
    /// The total cost that the limit allows in its window.
    public var limit: Int
    /// The part of the limit that is left.
    public var remaining: Int
    /// The time until the same call can be granted; `nil` if it was granted, or if a sidecar of 0.1.0 refused a cost
    /// above the limit.
    public var retryAfter: Duration?
    /// The time until the full capacity is available again if nothing else is taken.
    public var resetAfter: Duration

    package init(_ decision: CallDecision) {
        isAllowed = decision.isAllowed
        limitName = decision.limitName
        limit = Int(decision.limit)
        remaining = Int(decision.remaining)
        retryAfter = decision.wait
        resetAfter = decision.resetTime
    }
}

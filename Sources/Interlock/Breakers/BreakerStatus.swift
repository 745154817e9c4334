public import InterlockCore

/// What a breaker is doing, as this sidecar sees it.
public struct BreakerStatus: Hashable, Sendable {
    public var service: String
    /// As this sidecar acts.
    public var state: BreakerSnapshot.State
    /// The fleet's.
    public var fleet: BreakerSnapshot
    /// Why this sidecar is open for itself alone; `nil`: it is not.
    public var ownCause: BreakerCause?
}

public import InterlockCore

/// The status of a breaker, as this sidecar sees it.
public struct BreakerStatus: Hashable, Sendable {
    /// The service's name.
    public var service: String
    /// The state that this sidecar acts on.
    public var state: BreakerSnapshot.State
    /// The fleet's state.
    public var fleet: BreakerSnapshot
    /// The reason why this sidecar alone has opened the breaker; `nil` if it has not.
    package var ownCause: BreakerCause?
}

/// A service's breaker as one sidecar, or one embedded coordinator, sees it.
public struct BreakerStatus: Hashable, Sendable {
    /// The service's name.
    public var service: String
    /// The state that this sidecar acts on. After a change, it may briefly differ from the fleet's state.
    public var state: BreakerSnapshot.State
    /// The breaker as the fleet shares it. Sidecars do not send `streak` and `consecutive`, which are 0 in a client.
    public var fleet: BreakerSnapshot
    /// The cause for which this sidecar has opened the breaker for itself only; `nil` if it has not.
    public var ownCause: String?
    /// The sidecar's view of the service's probes; `nil` if the service is not probed, or if an embedded coordinator or
    /// a sidecar of 0.1.0 made this status.
    public var probe: ProbeStatus?

    package init(
        service: String, state: BreakerSnapshot.State, fleet: BreakerSnapshot, ownCause: BreakerCause? = nil
    ) {
        self.service = service
        self.state = state
        self.fleet = fleet
        self.ownCause = ownCause?.rawValue
    }
}

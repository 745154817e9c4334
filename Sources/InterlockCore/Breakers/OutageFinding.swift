/// What the outage monitor tells a service's breaker.
package enum OutageFinding: Hashable, Sendable {
    /// As many probes failed in a row as make an outage; said again with each further one. The reason is for people.
    case down(reason: String)
    /// The same, of one sidecar that probes for all: its own network may be at fault. It counts when another one suspects or seconds
    /// it, or when there is no other.
    case suspected(reason: String)
    /// A bad probe, of too few in a row: it counts when another sidecar suspects an outage.
    case seconded(reason: String)
    /// As many probes were good in a row as end an outage.
    case up
}

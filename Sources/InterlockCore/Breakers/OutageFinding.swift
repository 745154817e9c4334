/// A finding that the outage monitor reports to a service's breaker.
package enum OutageFinding: Hashable, Sendable {
    /// An outage: enough probes failed in a row. Each further failure repeats the finding. The reason is
    /// human-readable.
    case down(reason: String)
    /// A suspected outage. The one sidecar that probes for the fleet found it, and its own network may be the reason.
    /// The finding counts if another sidecar suspects an outage or seconds this one, or if there is no other sidecar.
    case suspected(reason: String)
    /// A failed probe, but too few in a row for an outage. The finding counts if another sidecar suspects an outage.
    case seconded(reason: String)
    /// The end of an outage: enough probes succeeded in a row.
    case up
}

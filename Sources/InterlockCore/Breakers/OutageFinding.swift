/// A finding that the outage monitor reports to a service's breaker.
package enum OutageFinding: Hashable, Sendable {
    /// An outage: enough probes failed in a row. Repeated with each further failure. The reason is human-readable.
    case down(reason: String)
    /// A suspected outage, found by the one sidecar that probes for the fleet, whose own network may be at fault. It
    /// counts if another sidecar suspects one as well or seconds it, or if there is no other sidecar.
    case suspected(reason: String)
    /// A failed probe, but too few in a row for an outage. It counts if another sidecar suspects one.
    case seconded(reason: String)
    /// The end of an outage: enough probes succeeded in a row.
    case up
}

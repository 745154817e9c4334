/// What the outage monitor tells a service's breaker.
public enum OutageFinding: Hashable, Sendable {
    /// As many probes failed in a row as make an outage; said again with each further one. The reason is for people.
    case down(reason: String)
    /// As many probes were good in a row as end an outage.
    case up
}

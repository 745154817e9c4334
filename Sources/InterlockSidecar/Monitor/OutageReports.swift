internal import InterlockCore

/// How the monitor talks to the services' breakers.
struct OutageReports: Sendable {
    /// Tells a service's breaker what the probes came to; returns the state after it.
    let report: @Sendable (_ service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State
    /// What an outage is to a service's breaker, as far as this sidecar knows. Costs no Redis.
    let standing: @Sendable (_ service: String) async -> OutageStanding
}

/// What an outage is to a breaker.
enum OutageStanding: Sendable {
    /// It is open or half-open because of one.
    case openByOutage
    /// One would open it, or be the cause for which it is open.
    case undecided
    /// Whatever the probes find, an operator or the configuration has the last word.
    case settled
}

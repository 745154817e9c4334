internal import InterlockCore

/// How the monitor talks to the services' breakers.
struct OutageReports: Sendable {
    /// Tells a service's breaker what the probes came to; returns the state after it.
    let report: @Sendable (_ service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State
    /// Whether a service's breaker is open or half-open because of an outage, as far as this sidecar knows. Costs no Redis.
    let isOpenByOutage: @Sendable (_ service: String) async -> Bool
}

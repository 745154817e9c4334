internal import Interlock
internal import InterlockCore

/// How the monitor talks to the services' breakers.
struct OutageReports: Sendable {
    /// Tells a service's breaker what the probes came to; returns the state after it.
    let report: @Sendable (_ service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State
    /// What an outage is to a service's breaker, as far as this sidecar knows. Costs no Redis.
    let standing: @Sendable (_ service: String) async -> OutageStanding
}

extension OutageReports {
    /// To the breakers of a coordinator's services.
    init(to coordinator: Coordinator) {
        self.init(
            report: { try await coordinator.reportOutage(service: $0, $1) },
            standing: { service in
                guard let breaker = try? await coordinator.breaker(service: service) else { return .settled }
                if breaker.fleet.state != .closed, breaker.fleet.cause == BreakerCause.outage.rawValue { return .openByOutage }
                let isMetricsOnly = await coordinator.definition(ofService: service)?.breaker.isMetricsOnly ?? true
                return breaker.fleet.forced != nil || isMetricsOnly ? .settled : .undecided
            })
    }
}

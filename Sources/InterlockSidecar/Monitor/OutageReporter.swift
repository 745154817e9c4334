internal import Interlock
internal import InterlockCore

/// The monitor's interface to the services' breakers.
struct OutageReporter: Sendable {
    /// Reports the result of probes to a service's breaker, and returns the breaker's new state.
    let report: @Sendable (_ service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State
    /// Returns the effect of an outage on a service's breaker, from this sidecar's own state, without a call to Redis.
    let effect: @Sendable (_ service: String) async -> OutageEffect
}

extension OutageReporter {
    /// Creates the interface to the breakers of a coordinator.
    init(to coordinator: Coordinator) {
        self.init(
            report: { try await coordinator.reportOutage(service: $0, $1) },
            effect: { service in
                guard let breaker = try? await coordinator.breaker(service: service) else { return .overridden }
                if breaker.fleet.state != .closed, breaker.fleet.cause == BreakerCause.outage.rawValue { return .openByOutage }
                let isMetricsOnly = await coordinator.definition(ofService: service)?.breaker.isMetricsOnly ?? true
                return breaker.fleet.forced != nil || isMetricsOnly ? .overridden : .undecided
            })
    }
}

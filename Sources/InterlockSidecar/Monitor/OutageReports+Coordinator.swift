internal import Interlock
internal import InterlockCore

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

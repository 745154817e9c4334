internal import InterlockCore

/// What goes on, for whoever shows it.
extension CoordinatorCalls {
    /// What was decided here since the start. O(n) in services.
    package var counts: DecisionCounts {
        var counts = DecisionCounts(
            locksGranted: runtime.metrics.locksGranted.count, locksHeld: runtime.metrics.locksHeld.count,
            locksReleased: runtime.metrics.locksReleased.count, redisCommands: redisCommands)
        for service in servicesInOrder {
            let own = service.metrics.counts
            counts.services[service.name] = own
            counts.ofServices.add(own)
        }
        return counts
    }

    /// What goes on at a service through this sidecar; `nil`: no such service is configured.
    package func activity(ofService name: String) -> ServiceActivity? {
        services[name].map { service in
            ServiceActivity(
                underWay: service.gate.permits.count, waiting: service.gate.limiter.waitingCount + service.gate.waitingCount,
                places: service.gate.bulkhead.places)
        }
    }

    /// Returns the limits of a service, each with the number of calls it has refused here since the service was
    /// configured; `nil` if no such service is configured.
    package func limitRefusals(ofService name: String) -> [(limit: LimitDefinition, refused: Int64)]? {
        services[name].map { service in
            service.gate.definition.limits.map { ($0, service.metrics.refusals(by: $0.name)) }
        }
    }

    /// Rises with whatever changes the last grants, but for leases that lapse.
    package var grantChanges: Int { history.changes }

    /// The time at which the limit decision being delivered now was sent to Redis or made without it; `nil` between
    /// deliveries. Until then, the call waited for its turn.
    package var limitsAskedAt: Instant? { executor.limitsAskedAt }

    /// How many locks one command tells of: one where their keys are apart, or on several servers.
    package var locksOfCommand: Int { runtime.keys.isOnCluster || quorum != nil ? 1 : LockCoordinator.mostAtOnce }

    /// What people's clocks show, in milliseconds since 1970.
    package func wallTime() -> Int64 { runtime.wallClock.milliseconds() }
}

/// What was decided, since the start.
package struct DecisionCounts: Hashable, Sendable {
    package var locksGranted: Int64
    /// Refused for another has them.
    package var locksHeld: Int64
    package var locksReleased: Int64
    package var redisCommands: Int64
    package var ofServices = ServiceCounts()
    package var services: [String: ServiceCounts] = [:]
}

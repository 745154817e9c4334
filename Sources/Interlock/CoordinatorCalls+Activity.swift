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
                underWay: service.permits.count, waiting: service.limiter.waitingCount + service.permitsWaiting,
                places: service.bulkhead.places)
        }
    }

    /// Returns the limits of a service, each with the number of calls it has refused here since the service was
    /// configured; `nil` if no such service is configured.
    package func limitRefusals(ofService name: String) -> [(limit: LimitDefinition, refused: Int64)]? {
        services[name].map { service in
            service.definition.limits.map { ($0, service.metrics.refusals(by: $0.name)) }
        }
    }

    /// Rises with whatever changes the last grants, but for leases that lapse.
    package var grantChanges: Int { history.changes }

    /// When Redis was asked for the decision of limits that is being delivered now; `nil`: none is, or it was made without Redis. Until
    /// then the call has waited for its turn.
    package var limitsAskedAt: Instant? { limits.askedAt }

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

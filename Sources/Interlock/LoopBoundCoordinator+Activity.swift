internal import InterlockCore

/// Counters and gauges for status displays.
extension LoopBoundCoordinator {
    /// The number of decisions that this sidecar has made since it started. O(n) in services.
    package var counts: DecisionCounts {
        var counts = DecisionCounts(
            locksGranted: runtime.metrics.locksGranted.count, locksRefused: runtime.metrics.locksRefused.count,
            locksReleased: runtime.metrics.locksReleased.count, redisCommands: redisCommandCount)
        for service in servicesInOrder {
            let serviceCounts = service.metrics.counts
            counts.services[service.name] = serviceCounts
            counts.serviceTotals.add(serviceCounts)
        }
        return counts
    }

    /// The current activity of a service in this sidecar; `nil` if the service is not configured.
    package func activity(ofService name: String) -> ServiceActivity? {
        services[name].map { service in
            ServiceActivity(
                inFlightCount: service.gate.permits.count,
                waitingCount: service.gate.limiter.waitingCount + service.gate.waitingCount,
                slots: service.gate.bulkhead.slots)
        }
    }

    /// Returns the limits of a service, each with the number of calls that it has refused in this sidecar since the
    /// service was configured; `nil` if no such service is configured.
    package func limitRefusals(ofService name: String) -> [(limit: LimitDefinition, refused: Int64)]? {
        services[name].map { service in
            service.gate.definition.limits.map { ($0, service.metrics.refusals(by: $0.name)) }
        }
    }

    /// A number that increases with each change to the recent grants, except when a lease expires.
    package var grantChanges: Int { history.changes }

    /// While a decision on limits is delivered, the time of the request to Redis or of the local evaluation that led to
    /// it; otherwise `nil`. Until that time, the call was waiting.
    package var limitsRequestedAt: Instant? { executor.limitsRequestedAt }

    /// The maximum number of locks that one command inspects: 1 if their keys may be on several servers.
    package var maximumLocksPerInspection: Int {
        runtime.keys.isOnCluster || quorum != nil ? 1 : LockCoordinator.maximumLocksPerCommand
    }

    /// The wall-clock time, as Unix time in milliseconds.
    package func wallTimeMilliseconds() -> Int64 { runtime.wallClock.milliseconds() }
}

/// The number of decisions that this sidecar has made since it started.
package struct DecisionCounts: Hashable, Sendable {
    package var locksGranted: Int64
    /// Requests that were refused because the lock was held.
    package var locksRefused: Int64
    package var locksReleased: Int64
    package var redisCommands: Int64
    package var serviceTotals = ServiceCounts()
    package var services: [String: ServiceCounts] = [:]
}

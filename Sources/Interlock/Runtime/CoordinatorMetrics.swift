internal import CoreMetrics

/// A counter that also keeps its value, because a metrics backend does not return it. Confined to the coordinator's
/// event loop.
final class Tally {
    private let counter: Counter
    private(set) var count: Int64 = 0

    init(label: String, dimensions: [(String, String)]) {
        counter = Counter(label: label, dimensions: dimensions)
    }

    func increment(by amount: Int = 1) {
        counter.increment(by: amount)
        count &+= Int64(amount)
    }

    /// Removes the counter from the backend.
    func destroy() { counter.destroy() }
}

/// The coordinator's metrics. They use swift-metrics, so that programs that embed the library get them in their own
/// backend.
final class CoordinatorMetrics {
    let locksGranted = Tally(label: "interlock_lock_decisions_total", dimensions: [("decision", "granted")])
    let locksRefused = Tally(label: "interlock_lock_decisions_total", dimensions: [("decision", "held")])
    let locksFailed = Counter(label: "interlock_lock_decisions_total", dimensions: [("decision", "failed")])
    let locksReleased = Tally(label: "interlock_lock_releases_total", dimensions: [("decision", "released")])
    let releasesLost = Counter(label: "interlock_lock_releases_total", dimensions: [("decision", "lost")])
    let acquireTime = Timer(label: "interlock_lock_acquire_seconds")
    let leases = Gauge(label: "interlock_locks_held")
    let waiters = Gauge(label: "interlock_locks_waiting")
    let limitTime = Timer(label: "interlock_limit_decision_seconds")
    let roundTripTime = Timer(label: "interlock_redis_round_trip_seconds")
    let reconnects = Counter(label: "interlock_redis_connects_total")
    let connectionFailures = Counter(label: "interlock_redis_connection_failures_total")
    let commands = Counter(label: "interlock_redis_commands_total")
    /// The number of commands that `commands` has counted.
    var commandsCounted: Int64 = 0
    let refusals = Counter(label: "interlock_redis_refusals_total")
    /// The number of refusals that `refusals` has counted.
    var refusalsCounted: Int64 = 0
    let switches = Counter(label: "interlock_redis_switches_total")
    /// The number of switches that `switches` has counted.
    var switchesCounted: Int64 = 0
    let primariesConnected = Gauge(label: "interlock_redis_primaries_connected")
    let slotsCovered = Gauge(label: "interlock_redis_slots_covered")
    let isConnected = Gauge(label: "interlock_redis_connected")
    let fleet = Gauge(label: "interlock_fleet_sidecars")
    let eventsDropped = Counter(label: "interlock_events_dropped_total")
    let leasesLinked = Gauge(label: "interlock_leases_tracked", dimensions: [("kind", "linked")])
    let leasesFollowed = Gauge(label: "interlock_leases_tracked", dimensions: [("kind", "watched")])
    let permitsInFlight = Gauge(label: "interlock_permits_active")

    /// Counts a release.
    /// - Parameter isReleased: whether the release ended a valid lease.
    func countRelease(_ isReleased: Bool) {
        if isReleased { locksReleased.increment() } else { releasesLost.increment() }
    }
}

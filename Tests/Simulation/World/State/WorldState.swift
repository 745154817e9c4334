import InterlockCore
import InterlockJudge
import SimulatedRedis

/// The state that everything in a world shares: its profile, time and machines, the upstreams of its services, and the
/// recorded history.
final class WorldState {
    /// The maximum time that an operation may take in addition to its wait, in milliseconds.
    static let patienceMilliseconds: Int64 = 3000
    /// The maximum time that everything takes to recover after a fault, in milliseconds.
    static let recoveryMilliseconds: Int64 = 6500

    let profile: Profile
    let timeline = WorldTimeline()
    let machines: RedisMachines
    /// The single Redis server, or the current primary.
    var redis: RedisHost { machines.host(of: "") }
    var quorum: [RedisHost] = []
    var sidecars: [SidecarHost] = []
    /// The path from clients to each sidecar.
    var listeners: [Path] = []
    var upstreams: [SimulatedUpstream]
    /// Whether a Redis server without real replicas pretends that its replica lags.
    var isReplicaLagging = false { didSet { redis.server.acknowledgingReplicaCount = isReplicaLagging ? 0 : 1 } }
    /// Whether the world is ending. Clients then begin no new action, and no fault begins.
    var isClosing = false

    private(set) var check: HistoryCheck
    private(set) var digest = HistoryDigest()
    private(set) var operations = 0
    /// The violations that the world itself found, in addition to those that the history's checkers find.
    private(set) var violations: [Violation] = []
    /// The number of calls through the proxy.
    private(set) var calls = 0
    private(set) var events: [HistoryEvent] = []
    private var leases: [String: LeaseID] = [:]
    private var lastLease: LeaseID = 0
    private var lastPermit: PermitNumber = 0
    private var highestFences: [Int: Int64] = [:]

    /// Creates the state of a world without sidecars and clients.
    /// - Parameters:
    ///   - redisDriftPerBillion: the drift of the Redis clock; positive if it runs fast.
    ///   - random: used only if Redis runs on several machines.
    init(profile: Profile, redisDriftPerBillion: Int64, random: SeededRandom) {
        self.profile = profile
        upstreams = profile.services.map { _ in SimulatedUpstream() }
        machines = RedisMachines(
            profile.topology, timeline: timeline, delay: .microseconds(50)...(.microseconds(1500)),
            driftPerBillion: redisDriftPerBillion,
            random: random)
        check = HistoryCheck(rules: profile.rules, maximumListedViolations: .max)
        redis.server.acknowledgingReplicaCount = 1
    }

    /// The time since the beginning, in milliseconds.
    var milliseconds: Int64 { (timeline.now - WorldTimeline.beginning) / 1_000_000 }

    /// Returns the time at which the clock of a key's server will show this Unix time in milliseconds, if it does not
    /// jump.
    func instant(ofRedisMilliseconds milliseconds: Int64, onServerOf key: String) -> Instant {
        let remainingMicroseconds = milliseconds &* 1000 &- machines.host(of: key).microseconds
        return timeline.instant.advanced(
            byMicroseconds: max(-1_000_000_000_000, min(1_000_000_000_000, remainingMicroseconds)))
    }

    // MARK: History

    func record(_ kind: HistoryEvent.Kind) {
        let event = HistoryEvent(at: timeline.instant, kind)
        if case .ended = kind { operations += 1 }
        digest.add(event)
        check.observe(event)
        events.append(event)
    }

    /// Ends the history. Returns the checkers' report.
    func finishHistory() -> CheckReport {
        check.finish(at: timeline.instant)
        return check.report
    }

    func name(ofLock lock: Int) -> String { "lock-\(lock)" }

    /// Returns the number of a lease in the history. Repeated replies about one grant have the same number.
    func leaseID(lock: Int, token: String, fence: Int64) -> LeaseID {
        let key = "\(lock) \(fence) \(token)"
        if let number = leases[key] { return number }
        lastLease += 1
        leases[key] = lastLease
        return lastLease
    }

    /// Records a violation that the history does not show.
    func recordViolation(_ invariant: Invariant, _ finding: String) {
        violations.append(Violation(invariant, at: timeline.instant, finding))
    }

    /// Returns the unique number of a proxied call.
    func nextCall() -> Int {
        calls += 1
        return calls
    }

    func nextPermit() -> PermitNumber {
        lastPermit += 1
        return lastPermit
    }

    /// Writes to the resource that a lock guards. Returns `false` if the fence is below the highest one seen so far.
    func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highestFences[lock, default: 0] else { return false }
        highestFences[lock] = fence
        return true
    }
}

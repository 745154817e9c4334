import InterlockCore
import InterlockJudge
import SimulatedRedis

/// What everything in a world shares: its profile, its time, its machines, the upstreams of its services, and the history that is
/// recorded.
final class WorldState {
    /// Every operation is answered within its wait plus this, in milliseconds.
    static let patience: Int64 = 3000
    /// Everything has recovered this long after a fault, in milliseconds.
    static let recovery: Int64 = 6500

    let profile: Profile
    let timeline = WorldTimeline()
    let machines: RedisMachines
    /// The server of a key that is asked for by nobody in particular: the one Redis, or the present primary.
    var redis: RedisHost { machines.host(of: "") }
    var quorum: [RedisHost] = []
    var sidecars: [SidecarHost] = []
    /// The path from clients to each sidecar.
    var doors: [Path] = []
    var upstreams: [SimulatedUpstream]
    /// Of a Redis without real replicas.
    var isReplicaLagging = false { didSet { redis.server.replicasAcknowledging = isReplicaLagging ? 0 : 1 } }
    /// Clients begin nothing new, and no fault begins any more.
    var isClosing = false

    private(set) var check: HistoryCheck
    private(set) var digest = HistoryDigest()
    private(set) var operations = 0
    /// The violations that the world found itself, in addition to those that the history's checkers find.
    private(set) var found: [Violation] = []
    /// The number of calls through the proxy.
    private(set) var calls = 0
    private(set) var events: [HistoryEvent] = []
    private var leases: [String: LeaseID] = [:]
    private var lastLease: LeaseID = 0
    private var lastPermit: PermitNumber = 0
    private var highestFences: [Int: Int64] = [:]

    /// - Parameters:
    ///   - redisDrift: by how many parts in a billion Redis' clock runs fast.
    ///   - random: for the machines of a Redis that is several; not used otherwise.
    init(profile: Profile, redisDrift: Int64, random: SeededRandom) {
        self.profile = profile
        upstreams = profile.services.map { _ in SimulatedUpstream() }
        machines = RedisMachines(
            profile.topology, timeline: timeline, delay: .microseconds(50)...(.microseconds(1500)), driftPerBillion: redisDrift,
            random: random)
        check = HistoryCheck(rules: profile.rules, toldViolations: .max)
        redis.server.replicasAcknowledging = 1
    }

    /// Milliseconds since the beginning.
    var milliseconds: Int64 { (timeline.now - WorldTimeline.beginning) / 1_000_000 }

    /// When the clock of the server that has a key will show this time, in milliseconds of the Unix epoch, at its present speed.
    func instant(ofRedis milliseconds: Int64, having key: String) -> Instant {
        let left = milliseconds &* 1000 &- machines.host(of: key).microseconds
        return timeline.instant.advanced(byMicroseconds: max(-1_000_000_000_000, min(1_000_000_000_000, left)))
    }

    // MARK: History

    func record(_ what: HistoryEvent.What) {
        let event = HistoryEvent(at: timeline.instant, what)
        if case .ended = what { operations += 1 }
        digest.add(event)
        check.observe(event)
        events.append(event)
    }

    /// The history ends now. Returns what the checkers found in it.
    func finishHistory() -> CheckReport {
        check.finish(at: timeline.instant)
        return check.report
    }

    func name(ofLock lock: Int) -> String { "lock-\(lock)" }

    /// The number of a lease in the history. The same grant always has the same number.
    func leaseID(lock: Int, token: String, fence: Int64) -> LeaseID {
        let key = "\(lock) \(fence) \(token)"
        if let known = leases[key] { return known }
        lastLease += 1
        leases[key] = lastLease
        return lastLease
    }

    /// Notes a broken promise that the history does not show.
    func find(_ promise: Promise, _ words: String) {
        found.append(Violation(promise, at: timeline.instant, words))
    }

    /// The number of a proxied call, which no other call has.
    func nextCall() -> Int {
        calls += 1
        return calls
    }

    func nextPermit() -> PermitNumber {
        lastPermit += 1
        return lastPermit
    }

    /// Writes to the resource that a lock guards. The resource refuses a fence below the highest that it has seen.
    func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highestFences[lock, default: 0] else { return false }
        highestFences[lock] = fence
        return true
    }
}

import Hiredis
import Interlock
import InterlockCore
public import InterlockJudge
import InterlockSidecar
import Logging
import SimulatedRedis

/// What a world came to.
public struct WorldResult: Sendable {
    public var seed: UInt64
    public var check: CheckReport
    /// What nobody knows the cause of.
    public var unknown: [Violation]
    /// The first finding of each known cause, and how many there were, by its name.
    public var known: [String: (first: Violation, count: Int)]
    /// Of the whole history: two worlds of one seed have the same.
    public var digest: UInt64
    public var operations: Int
    /// Simulated.
    public var seconds: Double
    /// Who took part, in words.
    public var profile: String
    public var faults: [ToldFault]
    /// Clients that took part, by their numbers.
    public var clients: [Int]
    /// The last events of the history, when they were asked for.
    public var tail: [HistoryEvent]
}

/// A fleet of real sidecars, the Redis servers that they share, everybody who uses them, and what breaks: all of it decided by
/// one seed.
public final class World {
    /// Milliseconds within which an operation is answered beyond its wait, and within which all recovers.
    static let patience: Int64 = 3000
    static let recovery: Int64 = 6500

    let timeline = Timeline()
    let profile: Profile
    private let seed: UInt64
    private var random: SeededRandom
    private(set) var redis: RedisHost
    private(set) var quorum: [RedisHost] = []
    private(set) var sidecars: [SidecarHost] = []
    /// The ways from clients to each sidecar.
    private(set) var doors: [Path] = []
    var upstreams: [Upstream]
    private(set) lazy var foreigner = Foreigner(world: self)
    private var clients: [DoorClient] = []
    private var probers: [Prober] = []
    private var faults: Faults?
    var isReplicaLagging = false { didSet { redis.server.replicasAcknowledging = isReplicaLagging ? 0 : 1 } }

    private var check: HistoryCheck
    private var digest = HistoryDigest()
    private var operations = 0
    private var recent: [HistoryEvent] = []
    private let keptEvents: Int
    /// No client begins anything new, and nothing breaks any more.
    private(set) var isClosing = false
    private var leases: [String: LeaseID] = [:]
    private var lastLease: LeaseID = 0
    private var lastPermit: PermitNumber = 0
    private var highestFences: [Int: Int64] = [:]
    private let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    /// - Parameters:
    ///   - omitting: numbers of faults that do not happen, to cut a story down.
    ///   - withoutClients: numbers of clients that do nothing, to the same end.
    ///   - keptEvents: how many of the last events are told.
    public init(
        seed: UInt64, omitting: Set<Int> = [], withoutClients: Set<Int> = [], keptEvents: Int = 0
    ) {
        self.seed = seed
        self.keptEvents = keptEvents
        random = SeededRandom(seed: seed)
        // Seeds that follow one another begin alike.
        for _ in 0..<8 { _ = random.next() }
        profile = Profile(random: &random)
        upstreams = profile.services.map { _ in Upstream() }
        redis = RedisHost(name: "redis", timeline: timeline, driftPerBillion: Self.drift(profile, &random))
        check = HistoryCheck(rules: Self.rules(profile), toldViolations: .max)
        redis.server.replicasAcknowledging = 1
        populate(omitting: omitting, withoutClients: withoutClients)
    }

    private static func drift(_ profile: Profile, _ random: inout SeededRandom) -> Int64 {
        profile.drift == 0 ? 0 : Int64.random(in: -profile.drift...profile.drift, using: &random)
    }

    // MARK: Who is in it

    private func populate(omitting: Set<Int>, withoutClients: Set<Int>) {
        quorum = (0..<profile.quorum).map { number in
            RedisHost(name: "quorum-\(number)", timeline: timeline, driftPerBillion: Self.drift(profile, &random))
        }
        let total = profile.sidecars + profile.otherFleet
        for number in 0..<total {
            let prefix = number < profile.sidecars ? KeySpace.defaultPrefix : "other:"
            sidecars.append(sidecar(number, prefix: prefix))
            doors.append(Path(delay: 10_000...60_000, random: random.split()))
        }
        // They start one after the other, as fleets do.
        var start: Int64 = 0
        for host in sidecars {
            // What is not there yet is as good as killed.
            record(.faultBegan(fault: -1 - host.number, .kill, sidecar: host.number))
            timeline.plan(in: start) { [self] in
                host.start()
                record(.faultEnded(fault: -1 - host.number))
            }
            start += random.happens(0.2) ? .milliseconds(Int64.random(in: 1...8000, using: &random)) : 1000
        }
        addClients(fleet: 0..<profile.sidecars, firstLock: 0, firstService: 0, prefix: KeySpace.defaultPrefix)
        if profile.otherFleet > 0 {
            addClients(
                fleet: profile.sidecars..<total, firstLock: profile.locks.count, firstService: profile.services.count,
                prefix: "other:")
        }
        if profile.hasEavesdropper { foreigner.eavesdrop() }
        let faults = Faults(world: self, random: random.split(), omitted: omitting)
        self.faults = faults
        for client in clients where !withoutClients.contains(client.number) { client.start() }
        for prober in probers { prober.start() }
        faults.start()
        changeUpstreams()
    }

    private func sidecar(_ number: Int, prefix: String) -> SidecarHost {
        var server = RedisConfiguration(address: .host(redis.name, port: 6379))
        server.reconnectDelay = .milliseconds(20)...(.milliseconds(500))
        let quorumServers = quorum.map { host in
            var server = server
            server.address = .host(host.name, port: 6379)
            return server
        }
        let configuration = InterlockConfiguration(
            redis: server, quorum: quorumServers, prefix: prefix,
            locks: LockSettings(
                maximumHold: profile.maximumHold.map { .milliseconds($0) }, waitReplicas: profile.waitReplicas),
            services: profile.services, fleetSize: profile.fleetSize, host: "host-\(number)", version: "simulated")
        let delay = (profile.redisDelay.lowerBound * 1000)...(profile.redisDelay.upperBound * 1000)
        return SidecarHost(
            number: number, configuration: configuration, servers: [redis] + quorum,
            paths: (0...quorum.count).map { _ in Path(delay: delay, random: random.split()) },
            timeline: timeline, driftPerBillion: Self.drift(profile, &random), random: random.split(), logger: logger)
    }

    private func addClients(fleet: Range<Int>, firstLock: Int, firstService: Int, prefix: String) {
        let services = profile.services.map(\.name)
        func number() -> Int { clients.count * LockClient.most }
        for _ in 0..<profile.lockClients {
            clients.append(
                LockClient(
                    world: self, number: number(), sidecars: fleet, random: random.split(), firstLock: firstLock,
                    kinds: profile.locks))
        }
        for _ in 0..<profile.limitClients {
            clients.append(
                LimitClient(
                    world: self, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services))
        }
        for _ in 0..<profile.permitClients {
            clients.append(
                PermitClient(
                    world: self, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services))
        }
        if random.happens(0.4) {
            clients.append(
                Operator(
                    world: self, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services))
        }
        for sidecar in fleet {
            clients.append(
                EventListener(
                    world: self, number: number(), sidecar: sidecar, random: random.split(), firstService: firstService,
                    services: services, channel: KeySpace(prefix: prefix).events))
        }
        for place in profile.services.indices {
            guard let probe = profile.services[place].probe else { continue }
            for sidecar in probe.origin == .all ? fleet : fleet.prefix(1) {
                probers.append(Prober(world: self, sidecar: sidecar, place: place, random: random.split()))
            }
        }
    }

    /// Services fall ill, and get well again.
    private func changeUpstreams() {
        timeline.plan(in: .milliseconds(Int64.random(in: 500...5000, using: &random))) { [weak self] in
            guard let self, !isClosing else { return }
            let place = Int.random(in: upstreams.indices, using: &random)
            upstreams[place].failing = random.happens(0.5) ? 0.01 : [0.3, 0.9, 1][Int.random(in: 0..<3, using: &random)]
            upstreams[place].isSlow = random.happens(0.2)
            changeUpstreams()
        }
    }

    private static func rules(_ profile: Profile) -> HistoryRules {
        let services = profile.services.map { service in
            ServiceRules(
                name: service.name,
                limits: service.limits.map { limit in
                    var burst: Int64 = 0
                    if case .gcra(let size) = limit.algorithm { burst = size }
                    let algorithm: LimitRule.Algorithm =
                        switch limit.algorithm {
                        case .fixed: .fixed
                        case .sliding: .sliding
                        case .gcra: .gcra
                        }
                    return LimitRule(
                        algorithm: algorithm, limit: limit.limit, window: limit.windowMilliseconds, burst: burst,
                        isPerSubject: limit.isPerSubject)
                },
                whenRedisIsDown: service.whenRedisIsDown == .local ? .local : service.whenRedisIsDown == .deny ? .deny : .allow,
                // What the limit or a sidecar by itself opens has no trials of the fleet.
                halfOpenPermits: service.onLimit.action == .trip || service.breaker.reporters > 1
                    ? nil : service.breaker.halfOpenPermits,
                permitLifetime: service.permitLifetime.wholeMilliseconds)
        }
        return HistoryRules(
            services: profile.otherFleet > 0 ? services + services : services, sidecars: profile.sidecars, patience: patience,
            recovery: recovery, handOver: profile.quorum > 0 ? 3000 : 800, clockDrift: Double(profile.drift) * 2 / 1e9)
    }

    // MARK: What its clients need

    func name(ofLock lock: Int) -> String { "lock-\(lock)" }

    /// The number of a lease in the history: of the same grant always the same.
    func leaseID(lock: Int, token: String, fence: Int64) -> LeaseID {
        let key = "\(lock) \(fence) \(token)"
        if let known = leases[key] { return known }
        lastLease += 1
        leases[key] = lastLease
        return lastLease
    }

    func nextPermit() -> PermitNumber {
        lastPermit += 1
        return lastPermit
    }

    /// When Redis' clock will show so many milliseconds since 1970, as it goes now.
    func instant(ofRedis milliseconds: Int64) -> Instant {
        let left = milliseconds &* 1000 &- redis.microseconds
        return timeline.instant.advanced(byMicroseconds: max(-1_000_000_000_000, min(1_000_000_000_000, left)))
    }

    /// A write of what a lock guards, which refuses fences lower than the highest it has seen.
    func write(lock: Int, fence: Int64) -> Bool {
        guard fence >= highestFences[lock, default: 0] else { return false }
        highestFences[lock] = fence
        return true
    }

    func record(_ what: HistoryEvent.What) {
        let event = HistoryEvent(at: timeline.instant, what)
        if case .ended = what { operations += 1 }
        digest.add(event)
        check.observe(event)
        guard keptEvents > 0 else { return }
        if recent.count >= 2 * keptEvents { recent.removeFirst(keptEvents) }
        recent.append(event)
    }

    /// Shows everything that Redis reads and writes, as it happens.
    public func tap(_ show: @escaping (String) -> Void) {
        for host in [redis] + quorum {
            host.onTraffic = { [unowned self] connection, bytes in
                let text = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").joined(separator: " ")
                show("\(milliseconds) \(host.name) \(connection) \(text)")
            }
        }
    }

    /// Since the beginning.
    var milliseconds: Int64 { (timeline.now - Timeline.beginning) / 1_000_000 }

    /// The configuration of one sidecar is read again: with other limits for one service, or the same as before.
    func reload(sidecar: Int, _ random: inout SeededRandom) -> (mend: () -> Void, words: String)? {
        let host = sidecars[sidecar]
        guard host.isUp, !host.isStopped else { return nil }
        var services = profile.services
        let place = Int.random(in: services.indices, using: &random)
        services[place].onLimit.maximumWaiting += Int.random(in: 0...3, using: &random)
        host.reload(services)
        return ({}, "sidecar \(sidecar), \(services[place].name).max_waiting \(services[place].onLimit.maximumWaiting)")
    }

    // MARK: Running

    /// Lets so many operations happen, makes everything whole, and waits until all must have recovered.
    public func run(operations target: Int) -> WorldResult {
        timeline.run(until: Timeline.beginning + .seconds(3600)) { operations >= target }
        faults?.endAll()
        // Clients go on until all has recovered, then come to their end.
        timeline.run(until: timeline.now + .milliseconds(Self.recovery + 5000))
        isClosing = true
        timeline.run(until: timeline.now + .milliseconds(Self.recovery + 20_000))
        check.finish(at: timeline.instant)
        // Its processes do not come to an end.
        Graveyard.bury(self)
        return result
    }

    private var result: WorldResult {
        let report = check.report
        let story = KnownFinding.Story(profile: profile, faults: faults?.told ?? [])
        var unknown: [Violation] = []
        var known: [String: (first: Violation, count: Int)] = [:]
        for violation in report.violations {
            guard let cause = KnownFinding.cause(of: violation, in: story) else {
                unknown.append(violation)
                continue
            }
            known[cause.name, default: (violation, 0)].count += 1
        }
        return WorldResult(
            seed: seed, check: report, unknown: unknown, known: known, digest: digest.value, operations: operations,
            seconds: Double(timeline.now - Timeline.beginning) / 1e9, profile: profile.description, faults: story.faults,
            clients: clients.map(\.number), tail: recent.suffix(keptEvents))
    }
}

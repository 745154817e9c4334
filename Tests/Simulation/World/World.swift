import Hiredis
import Interlock
public import InterlockCore
public import InterlockJudge
import InterlockSidecar
import Logging
import SimulatedRedis

/// What is left of a world when its story is cut down: parts of it are left out, and the rest is as it was.
public struct Cut: Sendable {
    /// The numbers of the faults that happen; `nil`: all.
    public var faults: Set<Int>?
    /// The numbers of the clients that do something; `nil`: all.
    public var clients: Set<Int>?
    /// When everything is made whole; `nil`: when there were operations enough.
    public var milliseconds: Int64?

    public init(faults: Set<Int>? = nil, clients: Set<Int>? = nil, milliseconds: Int64? = nil) {
        self.faults = faults
        self.clients = clients
        self.milliseconds = milliseconds
    }
}

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
    /// The names of its services.
    var services: [String]
    public var faults: [ToldFault]
    /// Clients that took part, by their numbers.
    public var clients: [Int]
    /// The history, when it was over, and what it is judged by.
    public var events: [HistoryEvent]
    public var end: Instant
    public var rules: HistoryRules

    /// Writes the history down as `interlock bench --history` does, for `interlock bench check`.
    /// - Throws: `HistoryFileError`.
    public func write(to path: String) throws {
        var writer = try HistoryWriter(path: path, rules: rules, source: .simulation)
        for event in events { try writer.write(event) }
        try writer.close(at: end)
    }
}

/// A fleet of real sidecars, the Redis servers that they share, everybody who uses them, and what breaks: all of it decided by
/// one seed.
public final class World {
    /// Milliseconds within which an operation is answered beyond its wait, and within which all recovers.
    static let patience: Int64 = 3000
    static let recovery: Int64 = 6500
    /// Of the second fleet's keys.
    static let otherPrefix = "other:"

    let timeline = Timeline()
    let profile: Profile
    private let seed: UInt64
    private let cut: Cut
    private var random: SeededRandom
    private(set) var redis: RedisHost
    private(set) var quorum: [RedisHost] = []
    private(set) var sidecars: [SidecarHost] = []
    /// The ways from clients to each sidecar.
    private(set) var doors: [Path] = []
    var upstreams: [Upstream]
    private(set) lazy var foreigner = Foreigner(world: self)
    private var clients: [DoorClient] = []
    /// Those of them that call as programs do.
    private var callers: [DoorClient] = []
    private var probers: [Prober] = []
    private var faults: Faults?
    var isReplicaLagging = false { didSet { redis.server.replicasAcknowledging = isReplicaLagging ? 0 : 1 } }

    private var check: HistoryCheck
    private var digest = HistoryDigest()
    private var operations = 0
    private var events: [HistoryEvent] = []
    /// No client begins anything new, and nothing breaks any more.
    private(set) var isClosing = false
    private var leases: [String: LeaseID] = [:]
    private var lastLease: LeaseID = 0
    private var lastPermit: PermitNumber = 0
    private var highestFences: [Int: Int64] = [:]
    private let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    /// - Parameter cut: what is left of it, when a story is cut down.
    public init(seed: UInt64, cut: Cut = Cut()) {
        self.cut = cut
        self.seed = seed
        random = SeededRandom(seed: seed)
        // Seeds that follow one another begin alike.
        for _ in 0..<8 { _ = random.next() }
        profile = Profile(random: &random)
        upstreams = profile.services.map { _ in Upstream() }
        redis = RedisHost(name: "redis", timeline: timeline, driftPerBillion: Self.drift(profile, &random))
        check = HistoryCheck(rules: Self.rules(profile), toldViolations: .max)
        redis.server.replicasAcknowledging = 1
        populate()
    }

    private static func drift(_ profile: Profile, _ random: inout SeededRandom) -> Int64 {
        profile.drift == 0 ? 0 : Int64.random(in: -profile.drift...profile.drift, using: &random)
    }

    // MARK: Who is in it

    private func populate() {
        quorum = (0..<profile.quorum).map { number in
            RedisHost(name: "quorum-\(number)", timeline: timeline, driftPerBillion: Self.drift(profile, &random))
        }
        let total = profile.sidecars + profile.otherFleet
        for number in 0..<total {
            let prefix = number < profile.sidecars ? KeySpace.defaultPrefix : Self.otherPrefix
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
                prefix: Self.otherPrefix)
        }
        if profile.hasEavesdropper { foreigner.eavesdrop() }
        let faults = Faults(world: self, random: random.split(), kept: cut.faults)
        self.faults = faults
        for client in clients where cut.clients?.contains(client.number) ?? true { client.start() }
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
        callers = clients.filter { $0 is LockClient || $0 is LimitClient || $0 is PermitClient }
        if random.happens(0.6) {
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
            recovery: recovery, handOver: profile.quorum > 0 ? 3000 : 500 + 300 * Int64(profile.sidecars),
            clockDrift: Double(profile.drift) * 2 / 1e9)
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
        events.append(event)
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

    /// The programs beside one sidecar die, and come again after so many milliseconds.
    func killClients(ofSidecar sidecar: Int, for milliseconds: Int64) {
        for client in callers where client.sidecar == sidecar { client.die(for: milliseconds) }
    }

    /// One sidecar reads its configuration again, in which one service is other than in those of the others; or the same as it was.
    func reload(sidecar: Int, _ random: inout SeededRandom) -> (mend: () -> Void, words: String)? {
        let host = sidecars[sidecar]
        guard host.isUp, !host.isStopped else { return nil }
        var services = profile.services
        let place = Int.random(in: services.indices, using: &random)
        let change: String
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1:
            services[place].onLimit.maximumWaiting += Int.random(in: 1...3, using: &random)
            change = "max_waiting \(services[place].onLimit.maximumWaiting)"
        case 2:
            let window = Int64.random(in: 1000...4000, using: &random)
            services[place].breaker.window = .time(.milliseconds(window))
            change = "breaker.window \(window) ms"
        case 3:
            services[place].concurrency = random.happens(0.3) ? nil : Int.random(in: 1...4, using: &random)
            change = "concurrency \(services[place].concurrency.map(String.init) ?? "none")"
        default: change = "as it was"
        }
        host.reload(services)
        return ({}, "\(services[place].name).\(change)")
    }

    // MARK: Running

    /// Lets so many operations happen, makes everything whole, and waits until all must have recovered.
    public func run(operations target: Int) -> WorldResult {
        let end: Int64 = cut.milliseconds.map { .milliseconds($0) } ?? .seconds(3600)
        timeline.run(until: Timeline.beginning + end) { operations >= target }
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
        let story = Story(profile: profile, faults: faults?.told ?? [])
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
            seconds: Double(timeline.now - Timeline.beginning) / 1e9, profile: profile.description,
            services: profile.services.map(\.name), faults: story.faults,
            clients: clients.map(\.number), events: events, end: timeline.instant, rules: Self.rules(profile))
    }
}

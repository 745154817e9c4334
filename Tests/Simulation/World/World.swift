import Interlock
package import InterlockCore
package import InterlockJudge
import Logging
import RedisClient
import SimulatedRedis

/// The result of a world.
package struct WorldResult: Sendable {
    package var seed: UInt64
    package var check: CheckReport
    /// The findings without a known cause.
    package var unknownFindings: [Violation]
    /// The first finding and the number of findings, by known cause.
    package var knownFindings: [String: (first: Violation, count: Int)]
    /// The digest of the history. Worlds with the same seed have equal digests.
    package var digest: UInt64
    package var operations: Int
    /// The simulated time, in seconds.
    package var seconds: Double
    /// The profile in words.
    package var profile: String
    /// The topology of Redis: `single`, `sentinels` or `cluster`.
    package var topology: String
    /// The names of the services.
    var services: [String]
    package var faults: [StoryFault]
    /// The numbers of the clients.
    package var clients: [Int]
    /// The history, its end, and the rules that judge it.
    package var events: [HistoryEvent]
    package var end: Instant
    package var rules: HistoryRules

    /// Writes the history as `interlock bench --history` does, for `interlock bench check`.
    /// - Throws: `HistoryFileError`.
    package func write(to path: String) throws {
        var writer = try HistoryWriter(path: path, rules: rules, source: .simulation)
        for event in events { try writer.write(event) }
        try writer.close(at: end)
    }
}

/// A fleet of real sidecars with their Redis servers, users and faults. One seed determines everything.
package final class World {
    /// The prefix of the second fleet's keys.
    static let otherPrefix = "other:"

    private let state: WorldState
    private let seed: UInt64
    private let subset: WorldSubset
    private var random: SeededRandom
    let otherSoftware: OtherSoftware
    private var clients: [ListenerClient] = []
    /// The clients that the fault `vanish` kills.
    private var killableClients: [ListenerClient] = []
    private var probers: [Prober] = []
    private var scriptEdit: ScriptEdit?
    private var faults: Faults?
    private let proxied: ProxiedServices

    private let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }

    /// Creates a world and starts it, at its first instant.
    /// - Parameter subset: the parts of the world that remain when its story is shrunk.
    package init(seed: UInt64, subset: WorldSubset = WorldSubset()) {
        self.subset = subset
        self.seed = seed
        random = SeededRandom(seed: seed)
        // The first draws of neighboring seeds are similar, so this skips them.
        for _ in 0..<8 { _ = random.next() }
        let profile = Profile(random: &random, isPlain: subset.isPlain)
        let driftPerBillion = Self.driftPerBillion(profile, &random)
        // The machine of a world with one server makes no draws from the main stream.
        let machines = profile.topology == .single ? SeededRandom(seed: seed) : random.split()
        state = WorldState(profile: profile, redisDriftPerBillion: driftPerBillion, random: machines)
        otherSoftware = OtherSoftware(state: state)
        proxied = ProxiedServices(state: state, random: SeededRandom(seed: ~seed))
        populate()
    }

    private var profile: Profile { state.profile }

    /// Draws the drift of one clock, in parts per billion.
    private static func driftPerBillion(_ profile: Profile, _ random: inout SeededRandom) -> Int64 {
        profile.driftPerBillion == 0
            ? 0 : Int64.random(in: -profile.driftPerBillion...profile.driftPerBillion, using: &random)
    }

    // MARK: Population

    private func populate() {
        state.quorum = (0..<profile.quorum).map { number in
            RedisHost(
                name: "quorum-\(number)", timeline: state.timeline,
                driftPerBillion: Self.driftPerBillion(profile, &random))
        }
        let sidecarCount = profile.sidecars + profile.otherFleet
        for number in 0..<sidecarCount {
            let prefix = number < profile.sidecars ? KeySpace.defaultPrefix : Self.otherPrefix
            state.sidecars.append(sidecar(number, prefix: prefix))
            state.listeners.append(Path(delay: 10_000...60_000, random: random.split()))
        }
        // Sidecars start one after another, as in real deployments.
        var start: Nanoseconds = 0
        for host in state.sidecars {
            // A sidecar that has not started yet counts as killed.
            state.record(.faultBegan(fault: -1 - host.number, .kill, sidecar: host.number))
            state.timeline.schedule(in: start) { [self] in
                host.start()
                state.record(.faultEnded(fault: -1 - host.number))
            }
            start += random.happens(0.2) ? .milliseconds(Int64.random(in: 1...8000, using: &random)) : 1000
        }
        addClients(fleet: 0..<profile.sidecars, firstLock: 0, firstService: 0, prefix: KeySpace.defaultPrefix)
        if profile.otherFleet > 0 {
            addClients(
                fleet: profile.sidecars..<sidecarCount, firstLock: profile.locks.count,
                firstService: profile.services.count,
                prefix: Self.otherPrefix)
        }
        addOtherAPIs()
        state.machines.start()
        if profile.hasEavesdropper { otherSoftware.eavesdrop() }
        let faults = Faults(world: self, state: state, random: random.split(), enabledFaults: subset.faults)
        self.faults = faults
        for client in clients where subset.clients?.contains(client.number) ?? true { client.start() }
        for prober in probers { prober.start() }
        faults.start()
        changeUpstreams()
        proxied.start()
    }

    private func sidecar(_ number: Int, prefix: String) -> SidecarHost {
        var server = RedisConfiguration(address: state.machines.address)
        server.reconnectDelay = .milliseconds(20)...(.milliseconds(500))
        let quorumServers = state.quorum.map { host in
            var server = server
            server.address = .host(host.name, port: 6379)
            return server
        }
        let configuration = InterlockConfiguration(
            redis: server, quorum: quorumServers, prefix: prefix,
            locks: LockSettings(
                maximumHold: profile.maximumHoldMilliseconds.map { .milliseconds($0) },
                waitReplicas: profile.waitReplicas),
            services: services(of: number), domains: number < profile.sidecars ? profile.domains : DomainSettings(),
            fleetSize: profile.fleetSize, host: "host-\(number)", version: "simulated")
        let minimumDelay = Nanoseconds.microseconds(profile.redisDelayMicroseconds.lowerBound)
        let maximumDelay = Nanoseconds.microseconds(profile.redisDelayMicroseconds.upperBound)
        let servers = state.machines.hosts + state.quorum
        return SidecarHost(
            number: number, configuration: configuration, servers: servers,
            paths: servers.map { _ in Path(delay: minimumDelay...maximumDelay, random: random.split()) },
            upstreams: proxied.makeNetwork(),
            timeline: state.timeline, driftPerBillion: Self.driftPerBillion(profile, &random), random: random.split(),
            logger: logger)
    }

    /// Returns the services in a sidecar's configuration.
    private func services(of sidecar: Int) -> [ServiceDefinition] {
        sidecar < profile.sidecars ? profile.services + profile.apis.proxied : profile.services
    }

    /// Adds the first fleet's clients that do not use the RESP API. They draw from a separate stream.
    private func addOtherAPIs() {
        let fleet = 0..<profile.sidecars
        var stream = SeededRandom(seed: seed ^ 0x5eed)
        func number() -> Int { clients.count * LockClient.maximumLocks }
        for _ in 0..<profile.descriptorClients {
            clients.append(DescriptorClient(world: state, number: number(), sidecars: fleet, random: stream.split()))
        }
        clients += proxied.clients(fleet: fleet, number: number)
    }

    /// Returns `.http` if the client with this number uses the HTTP API; `nil` if it uses a version of RESP.
    private func drawnProtocol(ofClient number: Int) -> ClientProtocol? {
        var stream = SeededRandom(seed: seed &+ UInt64(number) &* 0x9e37_79b9_7f4a_7c15)
        for _ in 0..<8 { _ = stream.next() }
        return stream.happens(profile.apis.http) ? .http : nil
    }

    private func addClients(fleet: Range<Int>, firstLock: Int, firstService: Int, prefix: String) {
        let services = profile.services.map(\.name)
        func number() -> Int { clients.count * LockClient.maximumLocks }
        for _ in 0..<profile.lockClients {
            clients.append(
                LockClient(
                    world: state, number: number(), sidecars: fleet, random: random.split(), firstLock: firstLock,
                    kinds: profile.locks, clientProtocol: drawnProtocol(ofClient: number())))
        }
        for _ in 0..<profile.limitClients {
            clients.append(
                LimitClient(
                    world: state, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services, clientProtocol: drawnProtocol(ofClient: number())))
        }
        for _ in 0..<profile.permitClients {
            clients.append(
                PermitClient(
                    world: state, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services, clientProtocol: drawnProtocol(ofClient: number())))
        }
        killableClients = clients.filter { $0 is LockClient || $0 is LimitClient || $0 is PermitClient }
        if random.happens(0.6) {
            clients.append(
                Operator(
                    world: state, number: number(), sidecars: fleet, random: random.split(), firstService: firstService,
                    services: services))
        }
        for sidecar in fleet {
            clients.append(
                EventListener(
                    world: state, number: number(), sidecar: sidecar, random: random.split(), firstService: firstService,
                    services: services, channel: KeySpace(prefix: prefix).events))
        }
        for index in profile.services.indices {
            guard let probe = profile.services[index].probe else { continue }
            for sidecar in probe.origin == .all ? fleet : fleet.prefix(1) {
                probers.append(Prober(world: state, sidecar: sidecar, index: index, random: random.split()))
            }
        }
    }

    /// Makes upstreams fail and recover at random times.
    private func changeUpstreams() {
        state.timeline.schedule(in: .milliseconds(Int64.random(in: 500...5000, using: &random))) { [weak self] in
            guard let self, !state.isClosing else { return }
            let index = Int.random(in: state.upstreams.indices, using: &random)
            state.upstreams[index].failureProbability =
                random.happens(0.5) ? 0.01 : [0.3, 0.9, 1][Int.random(in: 0..<3, using: &random)]
            state.upstreams[index].isSlow = random.happens(0.2)
            changeUpstreams()
        }
    }

    /// Passes a line to `report` for everything that Redis reads or writes.
    package func tap(_ report: @escaping (String) -> Void) {
        for host in state.machines.hosts + state.quorum {
            host.onTraffic = { [unowned self] connection, bytes in
                let traffic = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n").joined(separator: " ")
                report("\(state.milliseconds) \(host.name) \(connection) \(traffic)")
            }
        }
    }

    /// Plants a bug: replaces text in each script that a server loads from now on.
    package func replaceInScripts(_ old: String, with new: String) {
        let edit = ScriptEdit(old: old, new: new)
        scriptEdit = edit
        for host in state.machines.hosts + state.quorum { host.server.scriptEdit = edit }
    }

    /// Whether any script that ran had the text to replace.
    package var hasReplacedInScripts: Bool { scriptEdit?.isApplied == true }

    /// Passes each call of a script to `report` as a line of JSON, preceded by the script's source at its first call.
    package func traceScripts(_ report: @escaping (String) -> Void) {
        var digests: Set<String> = []
        for host in state.machines.hosts + state.quorum {
            let name = host.name
            host.server.onScriptCall = { call in
                if digests.insert(call.scriptDigest).inserted { report(call.sourceJSON) }
                report(call.json(server: name))
            }
        }
    }

    /// Kills the lock, limit and permit clients of one sidecar. Others replace them after this many milliseconds.
    func killClients(ofSidecar sidecar: Int, forMilliseconds milliseconds: Int64) {
        for client in killableClients where client.sidecar == sidecar { client.die(forMilliseconds: milliseconds) }
    }

    /// Makes one sidecar reload a configuration that differs from the other sidecars' in one service, or an unchanged
    /// one.
    func reload(sidecar: Int, _ random: inout SeededRandom) -> StartedFault? {
        let host = state.sidecars[sidecar]
        guard host.isUp, !host.isStopped else { return nil }
        var services = profile.services
        let index = Int.random(in: services.indices, using: &random)
        let change: String
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1:
            services[index].onLimit.maximumWaiting += Int.random(in: 1...3, using: &random)
            change = "max_waiting \(services[index].onLimit.maximumWaiting)"
        case 2:
            let windowMilliseconds = Int64.random(in: 1000...4000, using: &random)
            services[index].breaker.window = .time(.milliseconds(windowMilliseconds))
            change = "breaker.window \(windowMilliseconds) ms"
        case 3:
            services[index].concurrency = random.happens(0.3) ? nil : Int.random(in: 1...4, using: &random)
            change = "concurrency \(services[index].concurrency.map(String.init) ?? "none")"
        default: change = "unchanged"
        }
        host.reload(services + (sidecar < profile.sidecars ? profile.apis.proxied : []))
        return ({}, "\(services[index].name).\(change)")
    }

    // MARK: Running

    /// Runs this many operations, ends all faults, and waits until everything must have recovered.
    package func run(operations target: Int) -> WorldResult {
        let end: Nanoseconds = subset.milliseconds.map { .milliseconds($0) } ?? .seconds(3600)
        state.timeline.run(until: WorldTimeline.beginning + end) { state.operations >= target }
        faults?.endAll()
        // Clients continue until everything has recovered, then finish.
        state.timeline.run(until: state.timeline.now + .milliseconds(WorldState.recoveryMilliseconds + 5000))
        state.isClosing = true
        state.timeline.run(until: state.timeline.now + .milliseconds(WorldState.recoveryMilliseconds + 20_000))
        proxied.judge()
        let report = state.finishHistory()
        // The world's processes still run, and their promises must not be released.
        RetainedObjects.retain(self)
        return result(report)
    }

    /// Separates the findings with a known cause from the others.
    private func result(_ report: CheckReport) -> WorldResult {
        let story = Story(profile: profile, faults: faults?.storyFaults ?? [])
        var unknownFindings: [Violation] = []
        var knownFindings: [String: (first: Violation, count: Int)] = [:]
        for violation in report.violations + state.violations {
            guard let cause = KnownFinding.cause(of: violation, in: story) else {
                unknownFindings.append(violation)
                continue
            }
            knownFindings[cause.name, default: (violation, 0)].count += 1
        }
        // Leases lost in a failover count as a known finding, not as a violation.
        if let first = report.lostLeases.first {
            let finding = "lock \(first.lock): failover #\(first.fault) lost lease \(first.lease) of client \(first.client)"
            let cause = profile.waitReplicas == 0 ? KnownFinding.failover : KnownFinding.failoverOfMany
            knownFindings[cause.name] = (Violation(.keptLeases, at: first.at, finding), report.lostLeaseCount)
        }
        return WorldResult(
            seed: seed, check: report, unknownFindings: unknownFindings, knownFindings: knownFindings,
            digest: state.digest.value, operations: state.operations,
            seconds: Double(state.timeline.now - WorldTimeline.beginning) / 1e9, profile: profile.description,
            topology: profile.topology.name,
            services: profile.rules.services.map(\.name), faults: story.faults,
            clients: clients.map(\.number), events: state.events, end: state.timeline.instant, rules: profile.rules)
    }
}

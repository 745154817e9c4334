import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import RedisClient
import Testing

@testable import SidecarSettings
@testable import InterlockSidecar
@testable import SidecarListeners

@Suite("Probes by one sidecar of the fleet")
struct ProbeElectionTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// The parts of a sidecar that matter to the monitor.
    private struct Prober {
        let coordinator: Coordinator
        let monitor: OutageMonitor
        let running: Task<Void, any Error>

        var prober: ProbeReading.Prober? { monitor.reading(ofService: "catalog")?.prober }

        /// Stops the monitor and the coordinator, in the order of a shutdown.
        func shutDown() async throws {
            running.cancel()
            try await running.value
            await coordinator.stop()
        }
    }

    private func probers(
        _ count: Int, of service: ServiceDefinition, redis: RedisServer, reporter: OutageReporter,
        quorum: [RedisServer] = [], redisTimeout: Duration = .seconds(10),
        _ body: ([Prober]) async throws -> Void
    ) async throws {
        try await probers(
            of: Array(repeating: [service], count: count), redis: redis, reporter: reporter, quorum: quorum,
            redisTimeout: redisTimeout,
            body)
    }

    /// Runs `body` with a prober for each element of `services`.
    /// - Parameters:
    ///   - services: the services of each sidecar.
    ///   - reporter: the destination of all findings; `nil` if each sidecar reports to its own breakers.
    private func probers(
        of services: [[ServiceDefinition]], redis: RedisServer, reporter: OutageReporter? = nil,
        quorum: [RedisServer] = [], redisTimeout: Duration = .seconds(10),
        _ body: ([Prober]) async throws -> Void
    ) async throws {
        var probers: [Prober] = []
        for services in services {
            var configuration = InterlockConfiguration(
                redis: redis.configuration, quorum: quorum.map(\.configuration), services: services, host: "test")
            configuration.redis.commandTimeout = redisTimeout
            configuration.redis.reconnectDelay = .milliseconds(5) ... .milliseconds(50)
            let coordinator = Coordinator(
                configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: Self.quiet)
            await coordinator.start()
            try await eventually("the coordinator is ready") { await coordinator.isReady }
            let monitor = OutageMonitor(
                services: services, coordinator: coordinator, locks: LockSettings(),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton, reporter: reporter ?? OutageReporter(to: coordinator),
                logger: Self.quiet)
            probers.append(Prober(coordinator: coordinator, monitor: monitor, running: Task { try await monitor.run() }))
        }
        let result: Result<Void, any Error>
        do {
            try await body(probers)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        for prober in probers { try await prober.shutDown() }
        try result.get()
    }

    @Test("One of three sidecars probes, and the others know that it does")
    func oneOfThreeSidecarsProbes() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { server, port in
                let service = ServiceDefinition.probed("catalog", port: port, .fast(from: .one))
                try await probers(3, of: service, redis: redis, reporter: RecordingBreakers().reporter) { probers in
                    try await eventually("all sidecars know the prober") {
                        probers.allSatisfy { $0.prober == .elected || $0.prober == .another } && server.requests.count > 10
                    }
                    #expect(probers.filter { $0.prober == .elected }.count == 1)
                    #expect(probers.filter { $0.monitor.reading(ofService: "catalog")?.lastProbe != nil }.count == 1)
                }
            }
        }
    }

    @Test("The prober's lease is an ordinary, visible lock")
    func proberLeaseIsOrdinaryLock() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { _, port in
                let service = ServiceDefinition.probed("catalog", port: port, .fast(from: .one))
                try await probers(1, of: service, redis: redis, reporter: RecordingBreakers().reporter) { probers in
                    try await eventually("the sidecar is elected") { probers[0].prober == .elected }
                    let client = RedisClient(configuration: redis.configuration)
                    try await client.connect()
                    let ttl = try await client.send(AnyCommand(["PTTL", "interlock:lock:{interlock-monitor/catalog}"]))
                    await client.close()
                    let milliseconds = try #require(ttl.integer)
                    #expect((1...1000).contains(milliseconds))
                }
            }
        }
    }

    @Test("A dead prober is replaced after its lease expires")
    func deadProberIsReplacedAfterLeaseExpires() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { _, port in
                let client = RedisClient(configuration: redis.configuration)
                try await client.connect()
                // A killed sidecar does not release its lease.
                let lock = "interlock:lock:{interlock-monitor/catalog}"
                _ = try await client.send(AnyCommand(["SET", lock, "host/0123456789abcdef0123456789abcdef", "PX", "1000"]))
                await client.close()
                let service = ServiceDefinition.probed("catalog", port: port, .fast(from: .one))
                try await probers(2, of: service, redis: redis, reporter: RecordingBreakers().reporter) { probers in
                    try await eventually(within: .seconds(10), "one of the others probes") {
                        Set(probers.map(\.prober)) == [.elected, .another]
                    }
                }
            }
        }
    }

    // MARK: Confirmation by a second sidecar

    /// Returns whether the fleet's breaker is open.
    private static func isOpen(_ prober: Prober) async throws -> Bool {
        try await prober.coordinator.breaker(service: "catalog").fleet.state == .open
    }

    private static func knowEachOther(_ probers: [Prober]) async throws {
        try await eventually(within: .seconds(20), "all sidecars know each other") {
            for prober in probers where await prober.coordinator.status.fleet.count < probers.count { return false }
            return true
        }
    }

    @Test("A prober with a broken network opens no breaker and resigns")
    func brokenNetwork() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { server, port in
                let settings = ProbeSettings.fast(every: .milliseconds(100), unhealthyAfter: 3, from: .one)
                // Nothing listens on port 1, so this sidecar alone cannot reach the service.
                let unreachable = ServiceDefinition.probed("catalog", port: 1, settings)
                let good = ServiceDefinition.probed("catalog", port: port, settings)
                try await probers(of: [[unreachable], [good]], redis: redis) { probers in
                    try await Self.knowEachOther(probers)
                    try await eventually(within: .seconds(20), "the other sidecar probes and reports a good result") {
                        let reading = probers[1].monitor.reading(ofService: "catalog")
                        return reading?.prober == .elected && reading?.successCount ?? 0 > 5
                    }
                    #expect(probers[0].prober == .another)
                    #expect(try await !Self.isOpen(probers[1]))
                }
            }
        }
    }

    @Test("An outage opens the breaker if a second sidecar confirms it, or if no other sidecar can", arguments: [2, 1])
    func secondOpinion(probing: Int) async throws {
        try await RedisServer.withServer { redis in
            let service = ServiceDefinition.probed(
                "catalog", port: 1, .fast(every: .milliseconds(100), unhealthyAfter: 3, from: .one))
            let services = [[service], probing == 2 ? [service] : []]
            try await probers(of: services, redis: redis) { probers in
                try await Self.knowEachOther(probers)
                try await eventually(within: .seconds(20), "the breaker is open") { try await Self.isOpen(probers[0]) }
            }
        }
    }

    @Test("An outage is found while failures keep the breaker open")
    func openForFailures() async throws {
        try await RedisServer.withServer { redis in
            var service = ServiceDefinition.probed(
                "catalog", port: 1, .fast(every: .milliseconds(100), unhealthyAfter: 3, from: .one))
            service.breaker = BreakerSettings(minimumCalls: 2, openFor: .seconds(60) ... .seconds(60))
            try await probers(of: [[service], [service]], redis: redis) { probers in
                try await Self.knowEachOther(probers)
                let coordinator = probers[0].coordinator
                for _ in 0..<2 {
                    guard case .granted(let id, _) = try await coordinator.acquirePermit(service: "catalog") else { break }
                    _ = try await coordinator.reportPermit(service: "catalog", permit: id, OutcomeReport(outcome: .error))
                }
                try await eventually(within: .seconds(20), "the outage opens the breaker") {
                    let breaker = try await coordinator.breaker(service: "catalog").fleet
                    return breaker.state == .open && breaker.cause == "outage"
                }
            }
        }
    }

    @Test("A prober that shuts down resigns immediately")
    func handOver() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { _, port in
                // The lease of a probe with this interval lasts half a minute.
                let service = ServiceDefinition.probed("catalog", port: port, .fast(every: .seconds(60), from: .one))
                try await probers(2, of: service, redis: redis, reporter: RecordingBreakers().reporter) { probers in
                    try await eventually("one sidecar is elected and the other waits") {
                        probers.contains { $0.prober == .elected } && probers.contains { $0.prober == .another }
                    }
                    let leaving = try #require(probers.firstIndex { $0.prober == .elected })
                    probers[leaving].running.cancel()
                    try await eventually(within: .seconds(10), "the other sidecar is elected") {
                        probers[1 - leaving].prober == .elected
                    }
                }
            }
        }
    }

    @Test("A prober that loses its lease stops immediately, and the fleet elects another")
    func proberWithoutLeaseStopsImmediately() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { server, port in
                let service = ServiceDefinition.probed(
                    "catalog", port: port, .fast(every: .seconds(20), timeout: .seconds(15), from: .one))
                server.answer(ProbedServer.silence)
                try await probers(1, of: service, redis: redis, reporter: RecordingBreakers().reporter) { probers in
                    try await eventually("a probe is in progress") { server.requests.count == 1 }
                    let lock = try #require(ProbeLock.name(ofService: "catalog"))
                    let isBroken = try await probers[0].coordinator.breakLock(lock, by: "test")
                    #expect(isBroken)
                    try await eventually(within: .seconds(10), "the sidecar is elected again and probes immediately") {
                        server.requests.count == 2
                    }
                }
            }
        }
    }

    @Test("A prober on a quorum of lock servers renews its lease")
    func onQuorum() async throws {
        try await withServers(4) { servers in
            try await ProbedServer.with { _, port in
                let lease = Duration.seconds(2)
                let service = ServiceDefinition.probed(
                    "catalog", port: port, .fast(every: lease, timeout: .seconds(1), from: .one))
                try await probers(
                    2, of: service, redis: servers[0], reporter: RecordingBreakers().reporter, quorum: Array(servers.dropFirst())
                ) { probers in
                    try await eventually("one sidecar is elected") { probers.contains { $0.prober == .elected } }
                    let clock = ContinuousClock()
                    let elected = clock.now
                    let lock = try #require(ProbeLock.name(ofService: "catalog"))
                    let first = try await probers[0].coordinator.inspectLock(lock)?.fence
                    try await eventually("the lease would have expired") { clock.now > elected + lease * 3 / 2 }
                    let second = try await probers[0].coordinator.inspectLock(lock)?.fence
                    #expect(first != nil)
                    #expect(second == first)
                    #expect(Set(probers.map(\.prober)) == [.elected, .another])
                }
            }
        }
    }

    private func withServers(
        _ count: Int, _ servers: [RedisServer] = [], _ body: ([RedisServer]) async throws -> Void
    ) async throws {
        guard servers.count < count else { return try await body(servers) }
        try await RedisServer.withServer { try await withServers(count, servers + [$0], body) }
    }

    @Test("During an outage of Redis every sidecar probes, and afterwards only one")
    func withoutRedis() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { server, port in
                let service = ServiceDefinition.probed("catalog", port: port, .fast(from: .one))
                let breakers = RecordingBreakers()
                try await probers(
                    2, of: service, redis: redis, reporter: breakers.reporter, redisTimeout: .milliseconds(500)
                ) { probers in
                    try await eventually("one sidecar is elected") { probers.contains { $0.prober == .elected } }
                    await redis.kill()
                    try await eventually("both sidecars probe") { probers.allSatisfy { $0.prober == .alone } }
                    server.answer(.http(503))
                    try await eventually("both sidecars notify their breakers") {
                        probers.allSatisfy { ($0.monitor.reading(ofService: "catalog")?.failureCount ?? 0) > 0 }
                    }
                    #expect(breakers.findings.contains(.down(reason: "status 503, expected 200..399")))
                    try await redis.restart(keepingData: false)
                    try await eventually("one sidecar is elected again") {
                        Set(probers.map(\.prober)) == [.elected, .another]
                    }
                }
            }
        }
    }
}

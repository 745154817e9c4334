internal import FoundationEssentials
internal import InterlockClient
internal import InterlockCore
package import InterlockJudge
internal import InterlockProcesses
package import RedisClient

/// A real Redis and real sidecars, as child processes on 127.0.0.1 that do not outlive the harness.
///
/// Use `withFleet`, which always terminates them.
package final class SpawnedFleet: Sendable {
    /// The addresses of the sidecars, by number. They stay the same across restarts.
    package let endpoints: [SidecarEndpoint]
    /// The configuration of a direct connection to Redis, which bypasses the proxies.
    package let redis: RedisConfiguration
    /// The kinds of faults that this machine cannot cause, each with the reason.
    package let unsupported: [FaultKind: String]

    /// The Redis server: with Sentinels the initial primary, in a cluster the first server.
    let server: RedisServer
    /// The Sentinels and their servers; `nil` with another topology.
    let sentinels: SentinelFleet?
    /// The cluster; `nil` with another topology.
    let cluster: ClusterFleet?
    let sidecars: [SpawnedSidecar]
    /// The proxies, one per sidecar; empty if no fault needs them.
    let proxies: [FaultProxy]
    /// The clock of Redis; `nil` if Redis uses the system clock.
    let clock: FleetClock?

    private init(
        redis: RedisConfiguration, server: RedisServer, sentinels: SentinelFleet?, cluster: ClusterFleet?,
        sidecars: [SpawnedSidecar],
        proxies: [FaultProxy], clock: FleetClock?, unsupported: [FaultKind: String]
    ) {
        self.redis = redis
        self.server = server
        self.sentinels = sentinels
        self.cluster = cluster
        self.sidecars = sidecars
        self.proxies = proxies
        self.clock = clock
        self.unsupported = unsupported
        endpoints = sidecars.map { sidecar in
            SidecarEndpoint(
                number: sidecar.number, resp: SidecarEndpoint.resp(at: .tcp(host: "127.0.0.1", port: sidecar.respPort)),
                http: .init(host: "127.0.0.1", port: sidecar.httpPort))
        }
    }

    /// Starts a fleet, runs `body` once all processes serve, and then terminates every process, even after an error or
    /// cancellation.
    /// - Parameter onFailure: a closure that receives the last lines of every process's log if `body` throws.
    /// - Throws: `FleetError` or `RedisServerError` with the log of a process that failed to start; errors of `body`.
    package static func withFleet<Result>(
        _ settings: FleetSettings, onFailure: (String) -> Void = { _ in }, _ body: (SpawnedFleet) async throws -> Result
    ) async throws -> Result {
        let parts = Parts()
        return try await withCleanup {
            let fleet = try await start(settings, parts)
            do {
                return try await body(fleet)
            } catch {
                onFailure(await fleet.logs)
                throw error
            }
        } finally: {
            await parts.terminate()
        }
    }

    /// The process ID of Redis, or of the current primary; `nil` if that process is not running.
    package var redisProcessID: Int32? {
        get async { await (try? sentinels?.primary() ?? server)?.processID }
    }

    /// Returns the process ID of a sidecar; `nil` if the sidecar is not running.
    package func processID(ofSidecar number: Int) async -> Int32? {
        await sidecars[number].processID
    }

    /// The last lines of each process's log.
    package var logs: String {
        get async {
            var logs =
                if let sentinels { await sentinels.logs } else if let cluster { await cluster.logs } else {
                    "redis-server:\n\(await server.log.suffix(1 << 14))"
                }
            for sidecar in sidecars { logs += "\nsidecar \(sidecar.number):\n\(await sidecar.log)" }
            return logs
        }
    }

    private static func start(_ settings: FleetSettings, _ parts: Parts) async throws -> SpawnedFleet {
        let folder = try TemporaryFolder()
        await parts.add(folder)
        try Data(settings.configuration.utf8).write(to: URL(filePath: "\(folder.path)/interlock.yaml"))
        var unsupported: [FaultKind: String] = [:]
        var clock: FleetClock?
        if settings.movesClock {
            do {
                clock = try await FleetClock(folder: folder.path)
            } catch let error as FakeClockError {
                unsupported[.clock] = error.reason
            }
        }
        let persistence = settings.keepsData ? ["--appendonly", "yes", "--appendfsync", "always"] : []
        let arguments = persistence + settings.redisArguments
        let server: RedisServer
        var sentinels: SentinelFleet?
        var cluster: ClusterFleet?
        var url: String?
        var redis: RedisConfiguration
        switch settings.topology {
        case .single:
            server = try await RedisServer.start(arguments: arguments, environment: clock?.environment ?? [:])
            await parts.add(server)
            redis = server.configuration
        case .sentinel(let replicas):
            let sentinelFleet = try await SentinelFleet.start(replicas: replicas, arguments: arguments)
            await parts.add(sentinelFleet)
            sentinels = sentinelFleet
            server = sentinelFleet.servers[0]
            url = sentinelFleet.url
            redis = sentinelFleet.configuration
        case .cluster(let primaries, let replicas):
            // The loss of one server must not affect the keys of the others.
            let clusterFleet = try await ClusterFleet.start(
                primaries: primaries, replicas: replicas, arguments: arguments + ["--cluster-require-full-coverage", "no"])
            await parts.add(clusterFleet)
            cluster = clusterFleet
            server = await clusterFleet.members[0].server
            url = await clusterFleet.url
            redis = try RedisConfiguration(url: await clusterFleet.url)
            redis.connectTimeout = .seconds(10)
            redis.commandTimeout = .seconds(10)
        }
        guard let redisPort = server.port, let redisURL = url ?? server.portURL else {
            throw FleetError("Redis has no port")
        }
        var sidecars: [SpawnedSidecar] = []
        var proxies: [FaultProxy] = []
        for number in 0..<settings.sidecars {
            var url = redisURL
            if settings.needsProxies {
                let proxy = try await FaultProxy.start(redisPort: redisPort, seed: UInt64(number))
                await parts.add(proxy)
                proxies.append(proxy)
                url = "redis://127.0.0.1:\(proxy.port)"
            }
            sidecars.append(try await startSidecar(number, settings, redisURL: url, folder: folder.path, parts))
        }
        return SpawnedFleet(
            redis: redis, server: server, sentinels: sentinels, cluster: cluster, sidecars: sidecars, proxies: proxies,
            clock: clock,
            unsupported: unsupported)
    }

    /// Starts a sidecar. If another process has taken one of its ports in the meantime, retries with other ports.
    private static func startSidecar(
        _ number: Int, _ settings: FleetSettings, redisURL: String, folder: String, _ parts: Parts
    ) async throws -> SpawnedSidecar {
        var attemptsLeft = 5
        while true {
            let sidecar = try await SpawnedSidecar(number: number, program: settings.program, redisURL: redisURL, folder: folder)
            await parts.add(sidecar)
            do {
                try await sidecar.start()
                return sidecar
            } catch let error as FleetError {
                attemptsLeft -= 1
                guard attemptsLeft > 0, error.log.contains("ddress already in use") else { throw error }
            }
        }
    }
}

extension SpawnedFleet {
    /// The parts of a fleet that were started so far. They must be terminated even if the start fails halfway.
    private actor Parts {
        private var folder: TemporaryFolder?
        private var server: RedisServer?
        private var sentinels: SentinelFleet?
        private var cluster: ClusterFleet?
        private var sidecars: [SpawnedSidecar] = []
        private var proxies: [FaultProxy] = []

        func add(_ folder: TemporaryFolder) { self.folder = folder }
        func add(_ server: RedisServer) { self.server = server }
        func add(_ sentinels: SentinelFleet) { self.sentinels = sentinels }
        func add(_ cluster: ClusterFleet) { self.cluster = cluster }
        func add(_ sidecar: SpawnedSidecar) { sidecars.append(sidecar) }
        func add(_ proxy: FaultProxy) { proxies.append(proxy) }

        /// Terminates all parts in a separate task, so that cancellation of the caller cannot interrupt it.
        func terminate() async {
            await Task { await terminateAll() }.value
        }

        private func terminateAll() async {
            for sidecar in sidecars {
                // If this fails, the kernel kills the sidecar when the harness exits.
                try? await sidecar.kill()
            }
            for proxy in proxies { await proxy.close() }
            await server?.remove()
            await sentinels?.remove()
            await cluster?.remove()
            folder?.remove()
        }
    }
}

/// The settings of a fleet that the harness starts.
package struct FleetSettings: Sendable {
    /// The path of the executable `interlock`.
    package var program: String
    package var sidecars: Int
    /// The configuration of the sidecars in YAML. The command line sets the listening addresses, Redis and the data
    /// directory.
    package var configuration: String
    /// The kinds of faults to prepare for. The fleet has proxies only if a fault breaks connections, an append-only
    /// file only if a fault restarts Redis, and libfaketime only if a fault moves the clock.
    package var faults: Set<FaultKind>
    package var topology: FleetTopology
    /// Additional command-line arguments of Redis.
    package var redisArguments: [String]

    package init(
        program: String, sidecars: Int, configuration: String = "", faults: Set<FaultKind> = [],
        topology: FleetTopology = .single, redisArguments: [String] = []
    ) {
        self.program = program
        self.sidecars = sidecars
        self.configuration = configuration
        self.faults = faults
        self.topology = topology
        self.redisArguments = redisArguments
    }

    var needsProxies: Bool { requires(.proxies) }

    /// Whether Redis syncs every write to an append-only file before it answers. Otherwise a killed Redis loses its
    /// data.
    var keepsData: Bool { requires(.durableWrites) }

    var movesClock: Bool { requires(.adjustableClock) }

    private func requires(_ requirement: FaultKind.Requirement) -> Bool { faults.contains { $0.requirement == requirement } }
}

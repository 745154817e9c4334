internal import FoundationEssentials
internal import InterlockClient
internal import InterlockCore
package import InterlockJudge
internal import InterlockProcesses
package import RedisClient

/// A real Redis and real sidecars, as child processes on 127.0.0.1: they die with the harness.
///
/// Use `withFleet`, which always ends them.
package final class OwnFleet: Sendable {
    /// In the order of their numbers. They stay where they are when they are started again.
    package let endpoints: [SidecarEndpoint]
    /// How to reach Redis past all proxies, to measure and to look.
    package let redis: RedisConfiguration
    /// The kinds of faults that this machine has not got what it takes for, and what that is.
    package let missing: [FaultKind: String]

    /// Of a fleet with Sentinels the primary to begin with, of a cluster one of its servers.
    let server: RedisServer
    /// `nil`: there is one server, and no Sentinels.
    let sentinels: SentinelFleet?
    /// `nil`: there is no cluster.
    let cluster: ClusterFleet?
    let sidecars: [OwnSidecar]
    /// One for each sidecar, or none.
    let proxies: [FaultProxy]
    /// `nil`: Redis shows the true time.
    let clock: FleetClock?

    private init(
        redis: RedisConfiguration, server: RedisServer, sentinels: SentinelFleet?, cluster: ClusterFleet?, sidecars: [OwnSidecar],
        proxies: [FaultProxy], clock: FleetClock?, missing: [FaultKind: String]
    ) {
        self.redis = redis
        self.server = server
        self.sentinels = sentinels
        self.cluster = cluster
        self.sidecars = sidecars
        self.proxies = proxies
        self.clock = clock
        self.missing = missing
        endpoints = sidecars.map { sidecar in
            SidecarEndpoint(
                number: sidecar.number, door: SidecarEndpoint.door(at: .tcp(host: "127.0.0.1", port: sidecar.respPort)),
                http: .init(host: "127.0.0.1", port: sidecar.httpPort))
        }
    }

    /// Starts a fleet, runs `body` when all of it serves, and ends every process whatever happens, also on cancellation.
    /// - Parameter onFailure: is told the end of every process' log when `body` throws.
    /// - Throws: `FleetError` or `RedisServerError` with the log of what did not come up; what `body` throws.
    package static func withFleet<Result>(
        _ settings: FleetSettings, onFailure: (String) -> Void = { _ in }, _ body: (OwnFleet) async throws -> Result
    ) async throws -> Result {
        let parts = Parts()
        return try await attempt {
            let fleet = try await start(settings, parts)
            do {
                return try await body(fleet)
            } catch {
                onFailure(await fleet.logs)
                throw error
            }
        } finally: {
            await parts.end()
        }
    }

    /// The process that Redis is now; `nil`: it does not run.
    package var redisProcessID: Int32? {
        get async { await (try? sentinels?.primary() ?? server)?.processID }
    }

    /// The process that a sidecar is now; `nil`: it does not run.
    package func processID(ofSidecar number: Int) async -> Int32? {
        await sidecars[number].processID
    }

    /// The end of what each process has said.
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

    private static func start(_ settings: FleetSettings, _ parts: Parts) async throws -> OwnFleet {
        let folder = try TemporaryFolder()
        await parts.add(folder)
        try Data(settings.configuration.utf8).write(to: URL(filePath: "\(folder.path)/interlock.yaml"))
        var missing: [FaultKind: String] = [:]
        var clock: FleetClock?
        if settings.movesClock {
            do {
                clock = try await FleetClock(folder: folder.path)
            } catch let error as SteeredClockError {
                missing[.clock] = error.reason
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
            let started = try await SentinelFleet.start(replicas: replicas, arguments: arguments)
            await parts.add(started)
            sentinels = started
            server = started.servers[0]
            url = started.url
            redis = started.configuration
        case .cluster(let primaries, let replicas):
            // What one server's loss does to the keys of the others is up to Redis' own setting: to none.
            let started = try await ClusterFleet.start(
                primaries: primaries, replicas: replicas, arguments: arguments + ["--cluster-require-full-coverage", "no"])
            await parts.add(started)
            cluster = started
            server = await started.members[0].server
            url = await started.url
            redis = try RedisConfiguration(url: await started.url)
            redis.connectTimeout = .seconds(10)
            redis.commandTimeout = .seconds(10)
        }
        guard let redisPort = server.port, let redisURL = url ?? server.portURL else {
            throw FleetError("Redis has no port")
        }
        var sidecars: [OwnSidecar] = []
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
        return OwnFleet(
            redis: redis, server: server, sentinels: sentinels, cluster: cluster, sidecars: sidecars, proxies: proxies,
            clock: clock,
            missing: missing)
    }

    /// A port that was taken in the meantime is replaced by another.
    private static func startSidecar(
        _ number: Int, _ settings: FleetSettings, redisURL: String, folder: String, _ parts: Parts
    ) async throws -> OwnSidecar {
        var attemptsLeft = 5
        while true {
            let sidecar = try await OwnSidecar(number: number, program: settings.program, redisURL: redisURL, folder: folder)
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

extension OwnFleet {
    /// What has to be ended, in whatever state the fleet is.
    private actor Parts {
        private var folder: TemporaryFolder?
        private var server: RedisServer?
        private var sentinels: SentinelFleet?
        private var cluster: ClusterFleet?
        private var sidecars: [OwnSidecar] = []
        private var proxies: [FaultProxy] = []

        func add(_ folder: TemporaryFolder) { self.folder = folder }
        func add(_ server: RedisServer) { self.server = server }
        func add(_ sentinels: SentinelFleet) { self.sentinels = sentinels }
        func add(_ cluster: ClusterFleet) { self.cluster = cluster }
        func add(_ sidecar: OwnSidecar) { sidecars.append(sidecar) }
        func add(_ proxy: FaultProxy) { proxies.append(proxy) }

        /// In a task of its own: it runs to its end also when the caller is cancelled.
        func end() async {
            await Task { await endAll() }.value
        }

        private func endAll() async {
            for sidecar in sidecars {
                // The kernel ends it together with the harness at the latest.
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

/// What a fleet of the harness's own is made of.
package struct FleetSettings: Sendable {
    /// The program `interlock`.
    package var program: String
    package var sidecars: Int
    /// The sidecars' configuration in YAML. Where they listen, which Redis they use and where their data lies is said on
    /// the command line.
    package var configuration: String
    /// What may be broken. It decides how the fleet is built: only a fleet whose connections may be broken has proxies in the
    /// way, only one whose Redis may be restarted has an append-only file, only one whose clock may jump runs under libfaketime.
    package var faults: Set<FaultKind>
    package var topology: FleetTopology
    /// Further configuration of Redis as its command line takes it.
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

    var needsProxies: Bool { need(.proxies) }

    /// Every write is on disk before it is answered. A fleet that is only wiped has none: its Redis forgets by being killed.
    var keepsData: Bool { need(.keptData) }

    var movesClock: Bool { need(.movableClock) }

    private func need(_ requirement: FaultKind.Requirement) -> Bool { faults.contains { $0.requirement == requirement } }
}

package import InterlockJudge
internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import NIOPosix

/// A run of `interlock bench`: load on a fleet, injected faults, and a check of all observations of the clients.
package struct BenchRun: Sendable {
    /// A fleet that the run starts, and stops at its end.
    package struct Fleet: Sendable {
        /// The path of the executable `interlock`.
        package var program: String
        package var sidecars: Int
        /// The number of services in addition to the standard ones; see `StandardServices`.
        package var extraServices: Int
        /// The kinds of faults to cause during the run.
        package var faults: Set<FaultKind>
        package var topology: FleetTopology
        /// The value of `locks.wait_replicas` for every sidecar.
        package var waitReplicas: Int
        /// Whether every replica that may be promoted has every lock. This is not guaranteed while hash slots move,
        /// because a lock that has just moved with its slot may not be on the replicas yet.
        var keepsLocks: Bool {
            waitReplicas > 0 && waitReplicas == topology.replicas && faults.allSatisfy { $0.target != .slots }
        }

        package init(
            program: String, sidecars: Int, extraServices: Int = 0, faults: Set<FaultKind> = [],
            topology: FleetTopology = .single,
            waitReplicas: Int = 0
        ) {
            self.program = program
            self.sidecars = sidecars
            self.extraServices = extraServices
            self.faults = faults
            self.topology = topology
            self.waitReplicas = waitReplicas
        }
    }

    /// The load. A run that starts a fleet replaces the sidecars and services of this plan.
    package var plan: LoadPlan
    /// The fleet to start; `nil` if the plan names running sidecars.
    package var fleet: Fleet?
    /// The path of the file in which to record the observations of the clients (see `HistoryWriter`); `nil` to record
    /// nothing.
    package var historyPath: String?

    /// The TTL of leases under faults. It is short enough that a sidecar can be stopped for longer, and that expiring
    /// leases do not block every client.
    package static let leaseUnderFaults = Duration.seconds(2)
    /// The time after a fault by which every sidecar must serve again. Pauses before reconnects last at most one
    /// second, and sidecars read Redis again every five seconds.
    package static let recovery = Duration.seconds(10)

    package init(plan: LoadPlan, fleet: Fleet?, historyPath: String? = nil) {
        self.plan = plan
        self.fleet = fleet
        self.historyPath = historyPath
    }

    /// Executes the run.
    /// - Parameters:
    ///   - report: a closure that receives messages for the user, one line per call.
    ///   - progress: a closure that receives the state of the run once a second.
    /// - Throws: `LoadError`, `FleetError` or another error that prevents the run. Violations are in the report
    ///   instead.
    package func run(
        report: @escaping @Sendable (String) -> Void = { _ in }, progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }
    ) async throws -> RunReport {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        return try await withCleanup {
            try await run(on: group, report, progress)
        } finally: {
            try? await group.shutdownGracefully()
        }
    }

    private func run(
        on group: MultiThreadedEventLoopGroup, _ report: @escaping @Sendable (String) -> Void,
        _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async throws -> RunReport {
        let eventLoop = group.next()
        guard let fleet else {
            return try await drive(plan, faults: nil, on: eventLoop, report, progress)
        }
        var random = SeededRandom(seed: plan.seed)
        let isMisbehaving = plan.workload == .mixed
        let phases = FailurePhases(length: plan.duration, random: random.split())
        let upstream = try await BenchUpstream.start(on: group.next(), phases: isMisbehaving ? phases : nil, seed: random.next())
        let services = StandardServices(upstream: upstream.url, extraCount: fleet.extraServices)
        let settings = FleetSettings(
            program: fleet.program, sidecars: fleet.sidecars,
            configuration: FleetConfiguration(
                services: services.services, sidecars: fleet.sidecars, waitReplicas: fleet.waitReplicas
            ).yaml, faults: fleet.faults, topology: fleet.topology)
        var plan = plan
        plan.services = services.load
        if isMisbehaving { plan.failurePhases = services.failurePhases(length: plan.duration, random: random.split()) }
        plan.trustsWallClock = !fleet.faults.contains(.clock)
        report("starting \(fleet.sidecars) sidecar\(fleet.sidecars == 1 ? "" : "s") and a Redis")
        let fleetPlan = plan
        let runReport = try await SpawnedFleet.withFleet(settings, onFailure: report) { spawned in
            var plan = fleetPlan
            plan.sidecars = spawned.endpoints
            plan.redisProcessID = await spawned.redisProcessID
            let faultPlan = FaultPlan(
                seed: plan.seed, kinds: fleet.faults, sidecars: fleet.sidecars, duration: plan.duration, lease: plan.ttl,
                recovery: Self.recovery)
            return try await drive(plan, faults: (spawned, faultPlan), on: eventLoop, report, progress)
        }
        try? await upstream.close()
        return runReport
    }

    private func drive(
        _ plan: LoadPlan, faults: (fleet: SpawnedFleet, plan: FaultPlan)?, on eventLoop: any EventLoop,
        _ report: @escaping @Sendable (String) -> Void, _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async throws -> RunReport {
        let rules = HistoryRules(
            services: plan.services.rules, sidecars: plan.sidecars.count,
            patienceMilliseconds: plan.patience.wholeMilliseconds,
            recoveryMilliseconds: Self.recovery.wholeMilliseconds, keepsLocks: fleet?.keepsLocks ?? false)
        let log = try historyPath.map { try HistoryLog(path: $0, rules: rules) }
        let recorder = HistoryRecorder(
            eventLoop: eventLoop, rules: rules, sinks: log.map { log in [{ log.append($0) }] } ?? [])
        var lenientPlan = plan
        // The check treats a late answer as a violation. The clients wait longer, so that they observe late answers,
        // but not forever.
        lenientPlan.patience += .seconds(5)
        let load = try LoadRun(plan: lenientPlan, eventLoop: eventLoop, recorder: recorder)
        let (starts, startContinuation) = AsyncStream.makeStream(of: Void.self)
        async let injection = injectFaults(faults, after: starts, load, recorder, report)
        let outcome = try await withCleanup {
            try await load.run(progress: progress) { startContinuation.yield() }
        } finally: {
            startContinuation.finish()
        }
        let faultOutcome = await injection
        let check = await recorder.finish()
        try await log?.close(at: check?.end)
        return outcome.report(
            title: plan.workload.rawValue, seed: plan.seed, settings: settings(of: plan),
            faults: faultOutcome.reports(recoveryMilliseconds: check?.recoveryMilliseconds ?? [:]),
            check: (check?.report ?? CheckReport()).adding(faultOutcome.violations).counted(from: outcome.start))
    }

    private func injectFaults(
        _ faults: (fleet: SpawnedFleet, plan: FaultPlan)?, after starts: AsyncStream<Void>, _ load: LoadRun,
        _ recorder: HistoryRecorder, _ report: @escaping @Sendable (String) -> Void
    ) async -> FaultInjector.Outcome {
        guard let faults, !faults.plan.faults.isEmpty else { return FaultInjector.Outcome() }
        let injector = FaultInjector(
            fleet: faults.fleet, plan: faults.plan, hotKeys: hotKeys, vanish: { _ = await load.vanish(count: $0) }, log: report,
            recordEvent: { kind in
                await recorder.recordFromOutside(kind)
                // A restarted Redis is a new process.
                if case .faultEnded = kind, let process = await faults.fleet.redisProcessID {
                    await load.follow("redis", processID: process)
                }
            })
        for await _ in starts { return await injector.run() }
        return FaultInjector.Outcome()
    }

    /// The keys with the most load: those of the services and of the hottest locks.
    private var hotKeys: [String] {
        let locks = (0..<min(plan.names, 64)).map { "\(plan.namePrefix)\($0)" }
        return StandardServices().services.map(\.rules.name) + locks
    }

    private static var machine: String {
        var name = utsname()
        guard uname(&name) == 0 else { return "unknown" }
        func string<Field>(_ field: Field) -> String {
            withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
        return "\(string(name.sysname)) \(string(name.release)), \(string(name.machine)), \(System.coreCount) cores"
    }

    private func settings(of plan: LoadPlan) -> [RunReport.Setting] {
        var settings: [RunReport.Setting] = []
        func add(_ name: String, _ value: String) { settings.append(RunReport.Setting(name: name, value: value)) }
        switch plan.pacing {
        case .openLoop(let rate): add("load", "\(Figure.decimals(rate, 0))/s, open loop")
        case .closedLoop: add("load", "closed loop")
        }
        add("clients", Figure.count(plan.clients))
        add("sidecars", fleet.map { "\($0.sidecars), started by this run" } ?? "\(plan.sidecars.count)")
        if plan.workload == .lock || plan.workload == .mixed {
            add("names", "\(Figure.count(plan.names)), \(plan.skew)")
            add("lease", "\(plan.ttl.wholeMilliseconds) ms, wait at most \(plan.wait.wholeMilliseconds) ms")
        }
        switch fleet?.topology {
        case .sentinel(let replicas):
            add("Redis", "a primary, \(replicas) replicas, 3 Sentinels; locks wait for \(fleet?.waitReplicas ?? 0)")
        case .cluster(let primaries, let replicas):
            add(
                "Redis",
                "a cluster of \(primaries) primaries with \(replicas) replicas each; locks wait for \(fleet?.waitReplicas ?? 0)")
        case .single, nil: break
        }
        add("machine", Self.machine)
        if let fleet, fleet.extraServices > 0 { add("services", Figure.count(fleet.extraServices)) }
        if let fleet, !fleet.faults.isEmpty {
            add("faults", fleet.faults.map(\.rawValue).sorted().joined(separator: ","))
        }
        return settings
    }
}

package import InterlockJudge
internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import NIOPosix

/// A whole run as `interlock bench` makes it: load on a fleet, faults in it, and a check of all that clients saw.
package struct BenchRun: Sendable {
    /// A fleet that is started for the run and stopped after it.
    package struct Fleet: Sendable {
        /// The program `interlock`.
        package var program: String
        package var sidecars: Int
        /// Services beside the standard ones; see `StandardServices`.
        package var extraServices: Int
        /// What is broken while the run goes on.
        package var faults: Set<FaultKind>
        package var topology: FleetTopology
        /// `locks.wait_replicas` of every sidecar.
        package var waitReplicas: Int
        /// Whether whichever replica is promoted has every lock: not of one that has just moved with its slot.
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

    /// What the load is; with a fleet of the harness's own, its sidecars and services are that fleet's.
    package var plan: LoadPlan
    /// `nil`: the plan names running sidecars.
    package var fleet: Fleet?
    /// Where everything that clients saw is written down; see `HistoryFile`.
    package var historyPath: String?

    /// Short enough that a sidecar can be stopped for longer, and that leases which lapse do not hold everybody up.
    package static let leaseUnderFaults = Duration.seconds(2)
    /// So long after a fault everything must serve again: reconnecting pauses for a second at most, sidecars read again every
    /// five.
    package static let recovery = Duration.seconds(10)

    package init(plan: LoadPlan, fleet: Fleet?, historyPath: String? = nil) {
        self.plan = plan
        self.fleet = fleet
        self.historyPath = historyPath
    }

    /// - Parameters:
    ///   - tell: takes what a person should know while it goes on, a line at a time.
    ///   - progress: is called once a second.
    /// - Throws: `LoadError`, `FleetError` or what else keeps the run from being made; broken promises are in the report.
    package func run(
        tell: @escaping @Sendable (String) -> Void = { _ in }, progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }
    ) async throws -> RunReport {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        return try await attempt {
            try await run(on: group, tell, progress)
        } finally: {
            try? await group.shutdownGracefully()
        }
    }

    private func run(
        on group: MultiThreadedEventLoopGroup, _ tell: @escaping @Sendable (String) -> Void,
        _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async throws -> RunReport {
        let loop = group.next()
        guard let fleet else {
            return try await drive(plan, faults: nil, on: loop, tell, progress)
        }
        var random = SeededRandom(seed: plan.seed)
        let isTroubled = plan.workload == .mixed
        let phases = BadPhases(length: plan.duration, random: random.split())
        let upstream = try await BenchUpstream.start(on: group.next(), phases: isTroubled ? phases : nil, seed: random.next())
        let services = StandardServices(upstream: upstream.url, extra: fleet.extraServices)
        let settings = FleetSettings(
            program: fleet.program, sidecars: fleet.sidecars,
            configuration: FleetConfiguration(
                services: services.services, sidecars: fleet.sidecars, waitReplicas: fleet.waitReplicas
            ).yaml, faults: fleet.faults, topology: fleet.topology)
        var plan = plan
        plan.services = services.load
        if isTroubled { plan.badPhases = services.badPhases(length: plan.duration, random: random.split()) }
        plan.trustsWallClock = !fleet.faults.contains(.clock)
        tell("starting \(fleet.sidecars) sidecar\(fleet.sidecars == 1 ? "" : "s") and a Redis")
        let prepared = plan
        let report = try await OwnFleet.withFleet(settings, onFailure: tell) { own in
            var plan = prepared
            plan.sidecars = own.endpoints
            plan.redisProcessID = await own.redisProcessID
            let faults = FaultPlan(
                seed: plan.seed, kinds: fleet.faults, sidecars: fleet.sidecars, duration: plan.duration, lease: plan.ttl,
                recovery: Self.recovery)
            return try await drive(plan, faults: (own, faults), on: loop, tell, progress)
        }
        try? await upstream.close()
        return report
    }

    private func drive(
        _ plan: LoadPlan, faults: (fleet: OwnFleet, plan: FaultPlan)?, on loop: any EventLoop,
        _ tell: @escaping @Sendable (String) -> Void, _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async throws -> RunReport {
        let rules = HistoryRules(
            services: plan.services.rules, sidecars: plan.sidecars.count, patience: plan.patience.wholeMilliseconds,
            recovery: Self.recovery.wholeMilliseconds, keepsLocks: fleet?.keepsLocks ?? false)
        let log = try historyPath.map { try HistoryLog(path: $0, rules: rules) }
        let recorder = HistoryRecorder(eventLoop: loop, rules: rules, sinks: log.map { log in [{ log.append($0) }] } ?? [])
        var patient = plan
        // An answer that comes too late is a violation; one that never comes must not hold its client up for ever.
        patient.patience += .seconds(5)
        let load = try LoadRun(plan: patient, eventLoop: loop, recorder: recorder)
        let (beginnings, begun) = AsyncStream.makeStream(of: Void.self)
        async let breaking = breakThings(faults, after: beginnings, load, recorder, tell)
        let outcome = try await attempt {
            try await load.run(progress: progress) { begun.yield() }
        } finally: {
            begun.finish()
        }
        let broken = await breaking
        let check = await recorder.finish()
        try await log?.close(at: check?.end)
        return outcome.report(
            title: plan.workload.rawValue, seed: plan.seed, settings: settings(of: plan),
            faults: broken.reports(recoveries: check?.recoveries ?? [:]),
            check: (check?.report ?? CheckReport()).adding(broken.violations).counted(from: outcome.start))
    }

    private func breakThings(
        _ faults: (fleet: OwnFleet, plan: FaultPlan)?, after beginnings: AsyncStream<Void>, _ load: LoadRun,
        _ recorder: HistoryRecorder, _ tell: @escaping @Sendable (String) -> Void
    ) async -> FaultRig.Outcome {
        guard let faults, !faults.plan.faults.isEmpty else { return FaultRig.Outcome() }
        let rig = FaultRig(
            fleet: faults.fleet, plan: faults.plan, hotKeys: hotKeys, vanish: { _ = await load.vanish(count: $0) }, log: tell,
            note: { what in
                await recorder.recordFromOutside(what)
                // One that was started again is another process.
                if case .faultEnded = what, let process = await faults.fleet.redisProcessID {
                    await load.follow("redis", process: process)
                }
            })
        for await _ in beginnings { return await rig.run() }
        return FaultRig.Outcome()
    }

    /// Services, and the locks that are chosen most often.
    private var hotKeys: [String] {
        let locks = (0..<min(plan.names, 64)).map { "\(plan.namePrefix)\($0)" }
        return StandardServices().services.map(\.rules.name) + locks
    }

    private static var machine: String {
        var name = utsname()
        guard uname(&name) == 0 else { return "unknown" }
        func text<Field>(_ field: Field) -> String {
            withUnsafeBytes(of: field) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        }
        return "\(text(name.sysname)) \(text(name.release)), \(text(name.machine)), \(System.coreCount) cores"
    }

    private func settings(of plan: LoadPlan) -> [RunReport.Setting] {
        var settings: [RunReport.Setting] = []
        func add(_ name: String, _ value: String) { settings.append(RunReport.Setting(name: name, value: value)) }
        switch plan.pacing {
        case .openLoop(let rate): add("load", "\(Figure.decimals(rate, 0)) a second, open loop")
        case .closedLoop: add("load", "closed loop")
        }
        add("clients", Figure.count(plan.clients))
        add("sidecars", fleet.map { "\($0.sidecars) of its own" } ?? "\(plan.sidecars.count)")
        if plan.workload == .lock || plan.workload == .mixed {
            add("names", "\(Figure.count(plan.names)), \(plan.skew)")
            add("lease", "\(plan.ttl.wholeMilliseconds) ms, waiting at most \(plan.wait.wholeMilliseconds) ms")
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

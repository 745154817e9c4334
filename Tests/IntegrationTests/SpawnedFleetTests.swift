import Glibc
import InterlockClient
import InterlockJudge
import InterlockLoad
import InterlockProcesses
import RedisClient
import Testing

@Suite("Fleet of the test harness", .serialized, .timeLimit(.minutes(3)))
struct SpawnedFleetTests {
    @Test("A cluster recovers from lost primaries, moved hash slots and added or removed servers")
    func clusterChanges() async throws {
        try await ClusterFleet.withFleet(replicas: 1) { cluster in
            let slots = (0..<8).compactMap { HashSlot($0 * 2048) }
            func isHealthy(_ primaries: Int) async throws -> Bool {
                try await cluster.waitUntilHealthy()
                return try await cluster.primaries().count == primaries
            }
            try await cluster.reshard(slots, serverIndex: 1)
            #expect(try await isHealthy(3))
            for (index, loss) in PrimaryLoss.allCases.enumerated() {
                try await cluster.losePrimary(loss, serverIndex: index)
                try await cluster.recover()
                #expect(try await isHealthy(3))
            }
            try await cluster.join(taking: slots)
            #expect(try await isHealthy(4))
            try await cluster.removeAddedShard()
            #expect(try await isHealthy(3))
            try await cluster.leave(serverIndex: 0)
            #expect(try await isHealthy(2))
            try await cluster.restoreRemovedShard()
            #expect(try await isHealthy(3))
        }
    }

    @Test("The fleet's sidecars share a Redis, and leave nothing behind")
    func fleetSharesOneRedis() async throws {
        var processes: [Int32] = []
        try await SpawnedFleet.withFleet(try Self.settings(sidecars: 2)) { fleet in
            for number in 0..<2 { processes.append(try #require(await fleet.processID(ofSidecar: number))) }
            processes.append(try #require(await fleet.redisProcessID))
            let lease = try await Self.acquire("orders", at: fleet.endpoints[0])
            #expect(lease != nil)
            let attempt = try await Self.acquire("orders", at: fleet.endpoints[1])
            #expect(attempt == nil)
        }
        #expect(processes.allSatisfy { kill($0, 0) != 0 })
    }

    @Test("A sidecar that does not start is an error with its output")
    func badConfiguration() async throws {
        var settings = try Self.settings(sidecars: 1)
        settings.configuration = "no_such_key: 1\n"
        let error = await #expect(throws: FleetError.self) { try await SpawnedFleet.withFleet(settings) { _ in } }
        #expect(error?.log.contains("no_such_key") ?? false)
    }

    @Test("Every fault is injected, recorded, and repaired before its end is recorded")
    func everyFault() async throws {
        let acts: [(FaultAction, Duration)] = [
            (.kill(sidecar: 0), .milliseconds(100)),
            (.pause(sidecar: 0), .milliseconds(500)),
            (.partition(sidecar: 0, refusesConnections: false), .milliseconds(300)),
            (.partition(sidecar: 0, refusesConnections: true), .milliseconds(300)),
            (.delay(sidecar: 0, fixedMilliseconds: 5, jitterMilliseconds: 5), .milliseconds(200)),
            (.trickle(sidecar: 0, bytes: 16, everyMilliseconds: 1), .milliseconds(200)),
            (.reset(sidecar: 0, .reset, everyMilliseconds: 50), .milliseconds(200)),
            (.reset(sidecar: 0, .endTowardSidecar, everyMilliseconds: 50), .milliseconds(200)),
            (.reset(sidecar: 0, .endTowardRedis, everyMilliseconds: 50), .milliseconds(200)),
            (.redisRestart(.killed), .milliseconds(50)),
            (.redisRestart(.terminated), .milliseconds(50)),
            (.redisPause, .milliseconds(300)),
            (.redisWipe(.killed), .milliseconds(50)),
            (.redisWipe(.flushed), .zero),
            (.clock(bySeconds: 3600), .zero),
            (.clock(bySeconds: -3600), .milliseconds(300)),
            (.vanish(clients: 3), .zero),
        ]
        // Faults of one target run one after another, so all may be due at the same time.
        let faults = acts.enumerated().map { PlannedFault(number: $0, action: $1.0, start: .zero, duration: $1.1) }
        let plan = FaultPlan(seed: 1, faults: faults, calmStart: .seconds(120))
        let notes = Notes()
        let settings = try Self.settings(sidecars: 2, faults: Set(FleetTopology.single.faults))
        try await SpawnedFleet.withFleet(settings, onFailure: { print($0) }) { fleet in
            let injector = FaultInjector(
                fleet: fleet, plan: plan, vanish: { await notes.vanished($0) }, log: { print($0) },
                recordEvent: { event in
                    await notes.add(event)
                    guard case .faultEnded(let fault) = event else { return }
                    // There is only one attempt, because the target must already work.
                    switch acts[fault].0.target {
                    case .sidecar(let number): await notes.add(answers: Self.isAnswering(fleet.endpoints[number]))
                    case .redis: await notes.add(answers: Self.isAnswering(fleet.redis))
                    case .clients: break
                    }
                })
            let outcome = await injector.run()
            #expect(outcome.violations.isEmpty)
            #expect(outcome.unsupported.isEmpty)
            #expect(outcome.faults.count == acts.count)
            for endpoint in fleet.endpoints { try await Self.waitUntilServing(endpoint) }
        }
        #expect(await notes.vanished == 3)
        #expect(await notes.answers == Array(repeating: true, count: acts.count - 1))
        for number in acts.indices {
            let events = await notes.events.filter { $0.fault == number }
            #expect(events.map(\.isEnd) == [false, true])
        }
    }

    @Test("A restart of Redis keeps every lease")
    func restartOfRedisKeepsEveryLease() async throws {
        let plan = FaultPlan(
            seed: 1, faults: [PlannedFault(number: 0, action: .redisRestart(.killed), start: .zero, duration: .zero)],
            calmStart: .seconds(60))
        try await SpawnedFleet.withFleet(try Self.settings(sidecars: 2, faults: [.redisRestart])) { fleet in
            let lease = try await Self.acquire("orders", at: fleet.endpoints[0])
            #expect(lease != nil)
            let outcome = await FaultInjector(fleet: fleet, plan: plan) { _ in }.run()
            #expect(outcome.violations.isEmpty)
            try await Self.waitUntilServing(fleet.endpoints[1])
            let attempt = try await Self.acquire("orders", at: fleet.endpoints[1])
            #expect(attempt == nil)
        }
    }

    @Test("A cancelled run repairs the faults that it injected")
    func cancelledRunRepairsFaultsThatItInjected() async throws {
        let plan = FaultPlan(
            seed: 1,
            faults: [
                PlannedFault(number: 0, action: .pause(sidecar: 0), start: .zero, duration: .seconds(100)),
                PlannedFault(number: 1, action: .redisPause, start: .zero, duration: .seconds(100)),
                PlannedFault(number: 2, action: .kill(sidecar: 1), start: .zero, duration: .seconds(100)),
            ],
            calmStart: .seconds(200))
        let notes = Notes()
        try await SpawnedFleet.withFleet(try Self.settings(sidecars: 2, faults: [.pause, .redisPause, .kill])) { fleet in
            let injector = FaultInjector(fleet: fleet, plan: plan) { await notes.add($0) }
            let run = Task { await injector.run() }
            try await eventually("all faults have begun") { await notes.events.count == 3 }
            run.cancel()
            let outcome = await run.value
            #expect(outcome.violations.isEmpty)
            for endpoint in fleet.endpoints { try await Self.waitUntilServing(endpoint) }
        }
        let ends = await notes.events.count { $0.isEnd }
        #expect(ends == 3)
    }

    @Test("A fault that does not apply to the fleet is reported as missing")
    func unsupported() async throws {
        let plan = FaultPlan(
            seed: 1, faults: [PlannedFault(number: 0, action: .vanish(clients: 1), start: .zero, duration: .zero)],
            calmStart: .seconds(60))
        try await SpawnedFleet.withFleet(try Self.settings(sidecars: 1)) { fleet in
            let outcome = await FaultInjector(fleet: fleet, plan: plan) { _ in }.run()
            #expect(outcome.faults.isEmpty)
            #expect(Array(outcome.unsupported.keys) == [.vanish])
        }
    }
}

extension SpawnedFleetTests {
    /// The events that a fault rig reports.
    private actor Notes {
        private(set) var events: [(fault: Int, isEnd: Bool)] = []
        private(set) var vanished = 0
        private(set) var answers: [Bool] = []

        func add(_ event: HistoryEvent.Kind) {
            switch event {
            case .faultBegan(let fault, _, _): events.append((fault, false))
            case .faultEnded(let fault): events.append((fault, true))
            default: break
            }
        }

        func vanished(_ clients: Int) { vanished += clients }

        func add(answers isAnswering: Bool) { answers.append(isAnswering) }
    }

    private static func settings(sidecars: Int, faults: Set<FaultKind> = []) throws -> FleetSettings {
        FleetSettings(
            program: try InterlockProcess.program(), sidecars: sidecars, configuration: "redis: { timeout: 2s }\n",
            faults: faults)
    }

    /// Acquires a lock; `nil` if another client holds it.
    private static func acquire(_ name: String, at endpoint: SidecarEndpoint) async throws -> Lease? {
        var api = endpoint.resp
        api.connectTimeout = .seconds(10)
        api.responseTimeout = .seconds(10)
        return try await SidecarClient.withClient(api) { try await $0.locks.acquire(name, ttl: .seconds(60)) }
    }

    private static func isAnswering(_ endpoint: SidecarEndpoint) async -> Bool {
        await isAnswering(endpoint.resp.redisConfiguration)
    }

    private static func isAnswering(_ server: RedisConfiguration) async -> Bool {
        var server = server
        server.connectTimeout = .seconds(10)
        let client = RedisClient(configuration: server)
        let isConnected: Void? = try? await client.connect()
        await client.close()
        return isConnected != nil
    }

    /// Waits until the sidecar grants a lock. It may have to connect to Redis again.
    private static func waitUntilServing(_ endpoint: SidecarEndpoint) async throws {
        let name = "free-\(UInt64.random(in: 0 ... .max))"
        try await eventually("sidecar \(endpoint.number) grants a lock") {
            do {
                return try await acquire(name, at: endpoint) != nil
            } catch is InterlockError { return false }
        }
    }
}

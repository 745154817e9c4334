import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import RedisClient
import Testing

@testable import Interlock

/// The servers are real, so the duration of a failover varies.
@Suite("A Redis Cluster", .serialized, .timeLimit(.minutes(3)))
struct ClusterTests {
    private static let noOpLogger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    private static let services = [
        ServiceDefinition(
            name: "catalog", limits: [LimitDefinition(name: "1m", limit: 3, window: .seconds(60))])
    ]

    /// Runs `body` with coordinators that are connected to the whole cluster.
    static func withCoordinators(
        of count: Int = 1, _ fleet: ClusterFleet, url: String? = nil, timeout: Duration = .seconds(5),
        locks: LockSettings = LockSettings(), _ body: ([Coordinator]) async throws -> Void
    ) async throws {
        let fleetURL = await fleet.url
        var redis = try RedisConfiguration(url: url ?? fleetURL)
        redis.commandTimeout = timeout
        redis.connectTimeout = .seconds(5)
        let configuration = InterlockConfiguration(redis: redis, locks: locks, services: Self.services, host: "test")
        let group = MultiThreadedEventLoopGroup.singleton
        let coordinators = (0..<count).map { _ in
            Coordinator(configuration: configuration, eventLoop: group.next(), logger: Self.noOpLogger)
        }
        let result: Result<Void, any Error>
        do {
            for coordinator in coordinators {
                await coordinator.start()
                try await Self.waitUntilHealthy(coordinator)
            }
            try await body(coordinators)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        for coordinator in coordinators { await coordinator.stop() }
        try result.get()
    }

    static func waitUntilHealthy(_ coordinator: Coordinator) async throws {
        try await eventually(within: .seconds(30), "the coordinator is connected to the whole cluster") {
            guard let cluster = await coordinator.status.cluster else { return false }
            return cluster.coveredSlotCount == HashSlot.count && cluster.primaries.allSatisfy(\.isConnected)
        }
    }

    /// Returns the name of a lock whose keys are on this server.
    static func name(on member: ClusterFleet.Member, of fleet: ClusterFleet) async throws -> ResourceName {
        for number in 0... where try await fleet.owner(of: HashSlot(ofKey: "job-\(number)")).id == member.id {
            return try ResourceName("job-\(number)")
        }
        preconditionFailure("every server owns hash slots")
    }

    static func acquire(_ name: ResourceName, wait: Int64 = 0, _ coordinator: Coordinator) async throws -> Lease? {
        var request = LockRequest(name: name, ttlMilliseconds: 60_000)
        request.waitMilliseconds = wait
        return try await coordinator.acquireLock(request)
    }

    @Test("One seed leads to all servers, and locks, limits, lists and the fleet work across them")
    func oneSeedLeadsToEveryServer() async throws {
        try await ClusterFleet.withFleet { fleet in
            let seed = try #require(await fleet.members[1].server.port)
            try await Self.withCoordinators(of: 2, fleet, url: "redis+cluster://127.0.0.1:\(seed)") { coordinators in
                let cluster = try #require(await coordinators[0].status.cluster)
                #expect(cluster.primaries.map(\.slotCount).reduce(0, +) == HashSlot.count)
                #expect(cluster.primaries.count == 3)
                #expect(cluster.switchCount == 0)
                var names: Set<String> = []
                for member in await fleet.members {
                    let name = try await Self.name(on: member, of: fleet)
                    names.insert(name.text)
                    #expect(try await Self.acquire(name, coordinators[0]) != nil)
                    #expect(try await Self.acquire(name, coordinators[1]) == nil)
                }
                var listed: Set<String> = []
                var cursor = "0"
                repeat {
                    let page = try await coordinators[1].listLocks(cursor: cursor, matching: "*", count: 10)
                    listed.formUnion(page.names)
                    cursor = page.cursor
                } while cursor != "0"
                #expect(listed == names)
                for _ in 0..<3 { #expect(try await coordinators[0].take(service: "catalog").isAllowed) }
                #expect(try await !coordinators[1].take(service: "catalog").isAllowed)
                #expect(try await coordinators[0].fleet().map(\.id) == coordinators.map(\.id).sorted())
            }
        }
    }

    @Test("A lock is handed over between sidecars immediately, whichever server it is on")
    func handsOver() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await Self.withCoordinators(of: 2, fleet) { coordinators in
                for member in await fleet.members {
                    let name = try await Self.name(on: member, of: fleet)
                    let heldLease = try #require(try await Self.acquire(name, coordinators[0]))
                    let waiter = Task { try await Self.acquire(name, wait: 30_000, coordinators[1]) }
                    try await eventually(within: .seconds(20), "a caller waits") {
                        try await coordinators[0].inspectLock(name)?.waiters == 1
                    }
                    _ = try await coordinators[0].releaseLock(name, token: heldLease.token)
                    let passed = try #require(try await waiter.value)
                    #expect(passed.fence > heldLease.fence)
                }
            }
        }
    }

    @Test("While a hash slot moves, callers wait and get their answers without redirections")
    func slotMoves() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await Self.withCoordinators(of: 2, fleet, timeout: .seconds(20)) { coordinators in
                let (source, target) = (await fleet.members[0], await fleet.members[1])
                let name = try await Self.name(on: source, of: fleet)
                let slot = HashSlot(ofKey: name.text)
                let heldLease = try #require(try await Self.acquire(name, coordinators[0]))
                try await fleet.beginMove(of: slot, to: target)
                // Commands with a single key succeed both before and after the hash slot has moved.
                #expect(
                    try await coordinators[0].renewLock(name, token: heldLease.token, ttlMilliseconds: 60_000) != nil)
                let waiter = Task { try await Self.acquire(name, wait: 60_000, coordinators[1]) }
                let release = Task { try await coordinators[0].releaseLock(name, token: heldLease.token) }
                try await fleet.finishMove(of: slot, to: target)
                #expect(try await release.value)
                let passed = try #require(try await waiter.value)
                #expect(passed.fence > heldLease.fence)
                #expect(try await coordinators[0].renewLock(name, token: passed.token, ttlMilliseconds: 60_000) != nil)
            }
        }
    }

    @Test("A hash slot that does not arrive in time makes its keys unavailable, and the error names the hash slot")
    func slotStays() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await Self.withCoordinators(fleet, timeout: .seconds(1)) { coordinators in
                let (source, target) = (await fleet.members[0], await fleet.members[1])
                let name = try await Self.name(on: source, of: fleet)
                try await fleet.beginMove(of: HashSlot(ofKey: name.text), to: target)
                let error = await #expect(throws: InterlockError.self) { try await Self.acquire(name, coordinators[0]) }
                #expect(error?.code == .unavailable)
                #expect(
                    error?.message
                        == "Redis is unavailable: hash slot \(HashSlot(ofKey: name.text)) is moving to another server of the cluster and "
                        + "did not arrive in time")
            }
        }
    }

    @Test("A dead sidecar in the queue delays the waiters behind it by one claim window")
    func deadWaiter() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await Self.withCoordinators(of: 2, fleet) { coordinators in
                let name = try await Self.name(on: await fleet.members[2], of: fleet)
                let heldLease = try #require(try await Self.acquire(name, coordinators[0]))
                let member = try await fleet.owner(of: HashSlot(ofKey: name.text))
                // The ticket's sidecar is unknown and does not listen.
                let ticket = "0123456789ab/ticket/\(String(repeating: "0", count: 32))"
                _ = try await member.server.ask(["ZADD", "interlock:queue:{\(name)}", "1", ticket])
                let waiter = Task { try await Self.acquire(name, wait: 30_000, coordinators[1]) }
                try await eventually(within: .seconds(20), "a caller waits behind the dead sidecar's ticket") {
                    try await coordinators[0].inspectLock(name)?.waiters == 2
                }
                _ = try await coordinators[0].releaseLock(name, token: heldLease.token)
                #expect(try await waiter.value != nil)
                #expect(try await member.server.ask(["EXISTS", "interlock:queue:{\(name)}"]).integer == 0)
            }
        }
    }

    @Test("After a primary is killed its replica takes over its hash slots, the others keep working, and fences rise")
    func failover() async throws {
        try await ClusterFleet.withFleet(replicas: 1, arguments: ["--cluster-require-full-coverage", "no"]) { fleet in
            try await Self.withCoordinators(of: 2, fleet, locks: LockSettings(waitReplicas: 1)) { coordinators in
                let members = await fleet.members
                let name = try await Self.name(on: members[0], of: fleet)
                let other = try await Self.name(on: members[1], of: fleet)
                let heldLease = try #require(try await Self.acquire(name, coordinators[0]))
                // Servers report a replica only once it has replicated data.
                try await eventually(within: .seconds(20), "the replicas are known") {
                    await coordinators[0].status.replicaCount == 1
                }
                await members[0].server.kill()
                #expect(try await Self.acquire(other, coordinators[1]) != nil)
                for coordinator in coordinators {
                    try await eventually(within: .seconds(60), "the replica is known as the primary") {
                        let cluster = await coordinator.status.cluster
                        return cluster?.switchCount == 1 && cluster?.lastSwitchDuration != nil
                    }
                }
                // Replicated locks stay held by the same holders.
                #expect(try await Self.acquire(name, coordinators[1]) == nil)
                #expect(
                    try await coordinators[0].renewLock(name, token: heldLease.token, ttlMilliseconds: 60_000) != nil)
                // The promoted server has no replica yet, so waiting for replication fails.
                await #expect(throws: InterlockError.self) {
                    _ = try await coordinators[0].releaseLock(name, token: heldLease.token)
                    _ = try await Self.acquire(name, coordinators[1])
                }
            }
        }
    }

    @Test("The minimal ACL allows every command that is used")
    func minimalACL() async throws {
        try await ClusterFleet.withFleet { fleet in
            let command = try MinimalACLTests.documented() + MinimalACLTests.documentedForClusters()
            for member in await fleet.members { _ = try await member.server.ask(command) }
            let url = await fleet.url.replacing("://", with: "://sidecar:secret@")
            try await Self.withCoordinators(of: 2, fleet, url: url) { coordinators in
                for member in await fleet.members {
                    let name = try await Self.name(on: member, of: fleet)
                    let heldLease = try #require(try await Self.acquire(name, coordinators[0]))
                    let waiter = Task { try await Self.acquire(name, wait: 30_000, coordinators[1]) }
                    try await eventually(within: .seconds(20), "a caller waits") {
                        try await coordinators[0].inspectLock(name)?.waiters == 1
                    }
                    _ = try await coordinators[0].releaseLock(name, token: heldLease.token)
                    #expect(try await waiter.value != nil)
                }
                #expect(try await coordinators[1].take(service: "catalog").isAllowed)
                #expect(try await coordinators[0].fleet().count == 2)
            }
            for member in await fleet.members {
                let log = try await member.server.ask(["ACL", "LOG"])
                #expect(log == .array([]))
            }
        }
    }

    @Test("A server that is not in cluster mode is rejected with its address, and so is a cluster configured as a single server")
    func wrongKind() async throws {
        try await RedisServer.withServer { server in
            let port = try #require(server.port)
            let failure = try await Self.failure(of: "redis+cluster://127.0.0.1:\(port)")
            #expect(failure == "127.0.0.1:\(port) is not a cluster: use redis:// or rediss://")
        }
        try await ClusterFleet.withFleet { fleet in
            let port = try #require(await fleet.members[0].server.port)
            let failure = try await Self.failure(of: "redis://127.0.0.1:\(port)")
            #expect(failure.hasPrefix("Redis is a cluster but is configured as a single server"))
        }
    }

    private static func failure(of url: String) async throws -> String {
        let coordinator = Coordinator(
            configuration: InterlockConfiguration(redis: try RedisConfiguration(url: url), host: "test"),
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: Self.noOpLogger)
        await coordinator.start()
        var failure: String?
        try await eventually(within: .seconds(20), "the reason is reported") {
            failure = await coordinator.status.redisFailure
            return failure != nil
        }
        #expect(await !coordinator.isReady)
        await coordinator.stop()
        return failure ?? ""
    }
}

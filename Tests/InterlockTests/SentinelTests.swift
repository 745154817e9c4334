import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import RedisClient
import Testing

@testable import Interlock

/// The Sentinels and servers are real, so the duration of a failover varies.
@Suite("Redis behind Sentinels", .serialized, .timeLimit(.minutes(3)))
struct SentinelTests {
    private static let noOpLogger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Runs `body` with coordinators that find Redis through the Sentinels.
    private static func withCoordinators(
        of count: Int = 1, _ fleet: SentinelFleet, url: String? = nil, locks: LockSettings = LockSettings(),
        _ body: ([Coordinator]) async throws -> Void
    ) async throws {
        var redis = try RedisConfiguration(url: url ?? fleet.url)
        if let certificate = fleet.certificate { redis.trust(certificate) }
        redis.commandTimeout = .seconds(1)
        redis.connectTimeout = .seconds(1)
        let configuration = InterlockConfiguration(
            redis: redis, locks: locks, services: [ServiceDefinition(name: "catalog")], host: "test")
        let group = MultiThreadedEventLoopGroup.singleton
        let coordinators = (0..<count).map { _ in
            Coordinator(configuration: configuration, eventLoop: group.next(), logger: Self.noOpLogger)
        }
        for coordinator in coordinators {
            await coordinator.start()
            #expect(await coordinator.waitUntilReady(timeout: .seconds(20)))
        }
        let result: Result<Void, any Error>
        do {
            try await body(coordinators)
            result = .success(())
        } catch {
            result = .failure(error)
        }
        for coordinator in coordinators { await coordinator.stop() }
        try result.get()
    }

    /// Waits until all connections have moved away from the server at `port`.
    private static func waitUntilMoved(_ coordinator: Coordinator, from port: Int) async throws {
        try await eventually(within: .seconds(60), "the coordinator has moved to another primary") {
            let status = await coordinator.status
            return status.isRedisUp && status.primary?.address != "127.0.0.1:\(port)" && status.primary?.lastSwitchDuration != nil
        }
    }

    @Test("All connections go to the primary that a majority names")
    func connectionsGoToPrimaryThatMajorityNames() async throws {
        try await SentinelFleet.withFleet { fleet in
            try await Self.withCoordinators(fleet) { coordinators in
                let port = try #require(fleet.servers[0].port)
                let primary = try #require(await coordinators[0].status.primary)
                #expect(primary.address == "127.0.0.1:\(port)")
                #expect(primary.name == SentinelFleet.primaryName)
                #expect(primary.sentinelCount == 3)
                #expect(primary.switchCount == 0)
                #expect(primary.lastSwitchDuration == nil)
                #expect(await coordinators[0].status.replicaCount == 2)
                let clients = try await fleet.servers[0].ask(["CLIENT", "LIST"]).text ?? ""
                #expect(clients.split(separator: "\n").count { $0.contains(" name=interlock/\(coordinators[0].id) ") } == 3)
            }
        }
    }

    @Test(
        "A failover is followed over TLS to servers and Sentinels too",
        .enabled("this redis-server speaks TLS") { try await RedisProgram.current.speaksTLS })
    func overTLS() async throws {
        try await SentinelFleet.withFleet(replicas: 1, usesTLS: true) { fleet in
            try await Self.withCoordinators(fleet, locks: LockSettings(waitReplicas: 1)) { coordinators in
                let port = try #require(fleet.servers[0].port)
                let name = try ResourceName("orders")
                let heldLease = try #require(
                    try await coordinators[0].acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)))
                try await fleet.losePrimary(.killed)
                try await Self.waitUntilMoved(coordinators[0], from: port)
                #expect(try await coordinators[0].acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)) == nil)
                #expect(try await coordinators[0].releaseLock(name, token: heldLease.token))
            }
        }
    }

    @Test("The minimal ACLs of servers and Sentinels allow every command that is used")
    func minimalACL() async throws {
        try await SentinelFleet.withFleet { fleet in
            for server in fleet.servers { _ = try await server.ask(try MinimalACLTests.documented() + ["+role"]) }
            for sentinel in fleet.sentinels { _ = try await sentinel.ask(try MinimalACLTests.documented("watcher")) }
            let url =
                fleet.url.replacing("://", with: "://sidecar:secret@") + "?sentinel_username=watcher&sentinel_password=secret"
            try await Self.withCoordinators(fleet, url: url) { coordinators in
                #expect(try await coordinators[0].acquireLock(try LockRequest("job")) != nil)
                _ = try await fleet.sentinels[0].ask(["SENTINEL", "FAILOVER", SentinelFleet.primaryName])
                try await Self.waitUntilMoved(coordinators[0], from: try #require(fleet.servers[0].port))
                _ = try await Self.acquireFreeLock(try LockRequest("job-2"), on: coordinators[0])
            }
            for server in fleet.servers {
                let log = try await server.ask(["ACL", "LOG"])
                #expect(log == .array([]))
            }
            for sentinel in fleet.sentinels {
                let log = try await sentinel.ask(["ACL", "LOG"])
                #expect(log == .array([]))
            }
        }
    }

    @Test("Without a majority of the Sentinels no primary is trusted, and the error says why")
    func majority() async throws {
        try await SentinelFleet.withFleet { fleet in
            for sentinel in fleet.sentinels.dropFirst() { await sentinel.kill() }
            let configuration = InterlockConfiguration(redis: try RedisConfiguration(url: fleet.url), host: "test")
            let coordinator = Coordinator(
                configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: Self.noOpLogger)
            await coordinator.start()
            try await eventually(within: .seconds(20), "the reason is reported") {
                await coordinator.status.redisFailure?.hasPrefix(
                    "too few Sentinels report the primary main (1 of 3, 2 required): the Sentinel 127.0.0.1:") ?? false
            }
            #expect(await !coordinator.isReady)
            await coordinator.stop()
        }
    }

    @Test("When the primary is killed, locks continue at the promoted one, and fences rise")
    func killed() async throws {
        try await SentinelFleet.withFleet { fleet in
            try await Self.withCoordinators(of: 2, fleet, locks: LockSettings(waitReplicas: 1)) { coordinators in
                let port = try #require(fleet.servers[0].port)
                let heldLease = try #require(try await coordinators[0].acquireLock(try LockRequest("held", ttl: 120_000)))
                let before = try #require(try await coordinators[0].acquireLock(try LockRequest("fence")))
                _ = try await coordinators[0].releaseLock(try ResourceName(before.name), token: before.token)
                await fleet.servers[0].kill()
                for coordinator in coordinators { try await Self.waitUntilMoved(coordinator, from: port) }
                // Replicated locks stay held by the same holders.
                #expect(try await coordinators[1].acquireLock(try LockRequest("held")) == nil)
                #expect(
                    try await coordinators[0].renewLock(
                        try ResourceName(heldLease.name), token: heldLease.token, ttlMilliseconds: 120_000)
                        != nil)
                let after = try await Self.acquireFreeLock(try LockRequest("fence"), on: coordinators[1])
                #expect(after.fence > before.fence)
                #expect(await coordinators[0].status.primary?.switchCount == 1)
            }
        }
    }

    @Test("When the primary stops and returns writable, no connection goes back to it, and waiters are served")
    func stopped() async throws {
        try await SentinelFleet.withFleet { fleet in
            try await Self.withCoordinators(of: 2, fleet, locks: LockSettings(waitReplicas: 1)) { coordinators in
                let port = try #require(fleet.servers[0].port)
                let heldLease = try #require(try await coordinators[0].acquireLock(try LockRequest("job", ttl: 120_000)))
                await fleet.servers[0].pause()
                for coordinator in coordinators { try await Self.waitUntilMoved(coordinator, from: port) }
                await fleet.servers[0].resume()
                let waiter = Task { try await coordinators[1].acquireLock(try LockRequest("job", wait: 30_000)) }
                try await eventually(within: .seconds(20), "a caller waits") {
                    await coordinators[1].status.lockWaiterCount == 1
                }
                _ = try await coordinators[0].releaseLock(try ResourceName(heldLease.name), token: heldLease.token)
                #expect(try await waiter.value != nil)
                for coordinator in coordinators { #expect(await coordinator.status.primary?.address != "127.0.0.1:\(port)") }
            }
        }
    }

    /// Acquires a free lock once enough replicas follow the new primary.
    private static func acquireFreeLock(_ request: LockRequest, on coordinator: Coordinator) async throws -> Lease {
        var lease: Lease?
        try await eventually(within: .seconds(30), "a free lock is granted") {
            lease = try? await coordinator.acquireLock(request)
            return lease != nil
        }
        return try #require(lease)
    }
}

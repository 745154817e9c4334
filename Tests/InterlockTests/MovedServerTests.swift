import FoundationEssentials
import Interlock
import InterlockCore
import InterlockProcesses
import InterlockTesting
import Logging
import NIOPosix
import RedisClient
import Testing

/// One address whose server changes, as in a managed failover behind a DNS name or a service IP: new connections reach
/// the promoted server, and existing ones stay with the demoted one.
@Suite("A new server behind the same address", .serialized, .timeLimit(.minutes(4)))
struct MovedServerTests {
    /// The number of failovers: `INTERLOCK_TEST_MOVES`, or a default that is small enough for every test run.
    private static var moves: Int { ProcessInfo.processInfo.environment["INTERLOCK_TEST_MOVES"].flatMap { Int($0) } ?? 5 }
    /// The number of a sidecar's connections: one each for commands, for subscriptions and for the watch.
    private static let connections = 3
    /// The ttl of the leases, more than twice the second for which `FAILOVER` blocks writes.
    private static let ttlMilliseconds: Int64 = 4500
    /// The maximum time that the other connections may take to follow the first.
    private static let maximumMoveTime = Duration.seconds(1)

    private struct Stage {
        let servers: [RedisServer]
        let forwarder: SwitchingForwarder
        let coordinator: Coordinator

        /// Returns the number of the coordinator's connections to `server`.
        func connections(at server: RedisServer) async throws -> Int {
            let list = try await server.ask(["CLIENT", "LIST"]).text ?? ""
            return list.split(separator: "\n").count { $0.contains(" name=interlock/\(coordinator.id) ") }
        }

        /// Waits for the first connection to `server`, then for the others within `maximumMoveTime`.
        func waitUntilAllMoved(to server: RedisServer) async throws {
            try await eventually(within: .seconds(20), "the first connection is at the new server") {
                try await connections(at: server) > 0
            }
            try await eventually(within: MovedServerTests.maximumMoveTime, "every connection is at the new server") {
                try await connections(at: server) == MovedServerTests.connections
            }
        }
    }

    /// Runs `body` with two servers, a forwarder to the first, and a coordinator that knows only the forwarder.
    private static func withStage(_ body: (Stage) async throws -> Void) async throws {
        try await RedisServer.withServer(arguments: ["--repl-diskless-sync-delay", "0"]) { first in
            try await RedisServer.withServer(arguments: ["--repl-diskless-sync-delay", "0"]) { second in
                try await SwitchingForwarder.withForwarder(to: try #require(first.port)) { forwarder in
                    var redis = try RedisConfiguration(url: "redis://127.0.0.1:\(forwarder.port)")
                    redis.commandTimeout = .seconds(2)
                    redis.connectTimeout = .seconds(2)
                    let coordinator = Coordinator(
                        configuration: InterlockConfiguration(redis: redis, host: "test"),
                        eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                    await coordinator.start()
                    await coordinator.waitUntilReady(timeout: .seconds(20))
                    let stage = Stage(servers: [first, second], forwarder: forwarder, coordinator: coordinator)
                    let result: Result<Void, any Error>
                    do {
                        try await stage.waitUntilAllMoved(to: first)
                        try await body(stage)
                        result = .success(())
                    } catch {
                        result = .failure(error)
                    }
                    await coordinator.stop()
                    try result.get()
                }
            }
        }
    }

    /// Makes `replica` follow `primary`, and waits until it has caught up.
    private static func follow(_ primary: RedisServer, by replica: RedisServer) async throws {
        _ = try await replica.ask(["REPLICAOF", "127.0.0.1", "\(try #require(primary.port))"])
        try await eventually("the replica has caught up") {
            let report = try await primary.ask(["INFO", "replication"]).text ?? ""
            return report.contains("state=online")
        }
    }

    /// Performs a planned failover: the primary waits for the replica to catch up, then both switch roles.
    private static func failOver(from primary: RedisServer, to replica: RedisServer) async throws {
        _ = try await primary.ask(["FAILOVER", "TO", "127.0.0.1", "\(try #require(replica.port))"])
        try await eventually("the roles have changed") {
            let roles = [try await primary.ask(["ROLE"]), try await replica.ask(["ROLE"])].map { $0.array?.first?.text }
            return roles == ["slave", "master"]
        }
    }

    /// Waits until the ttl of each of these keys at `server` has increased.
    private static func waitUntilExtended(_ keys: [String], at server: RedisServer) async throws {
        let script = "local ttls = {} for index, key in ipairs(KEYS) do ttls[index] = redis.call('PTTL', key) end return ttls"
        func ttls() async throws -> [Int64] {
            let reply = try await server.ask(["EVAL", script, "\(keys.count)"] + keys)
            return reply.array?.map { $0.integer ?? 0 } ?? []
        }
        // Each ttl is compared with the last one read. The first may have been read just after an extension, which
        // later ones do not exceed.
        var lastTTLs = try await ttls()
        var extended: Set<Int> = []
        try await eventually("each lease is extended at the new server") {
            let currentTTLs = try await ttls()
            for index in keys.indices where currentTTLs[index] > lastTTLs[index] { extended.insert(index) }
            lastTTLs = currentTTLs
            return extended.count == keys.count
        }
    }

    private static func lossSoFar(of followed: FollowedLease) async -> LeaseLoss? {
        let reader = Task { () -> LeaseLoss? in
            for await loss in followed.losses { return loss }
            return nil
        }
        // A cancelled stream still delivers its buffered elements.
        reader.cancel()
        return await reader.value
    }

    @Test("After each planned failover every connection moves within a second, and no linked lease is reported lost")
    func failovers() async throws {
        try await Self.withStage { stage in
            let coordinator = stage.coordinator
            try await Self.follow(stage.servers[0], by: stage.servers[1])
            var followed: [(lease: Lease, followed: FollowedLease)] = []
            for number in 0..<10 {
                let lease = try #require(
                    try await coordinator.acquireLock(try LockRequest("job-\(number)", ttl: Self.ttlMilliseconds)))
                followed.append((lease, try await coordinator.followLease(lease, isLinked: true)))
            }
            for move in 0..<Self.moves {
                let (primary, replica) = (stage.servers[move % 2], stage.servers[(move + 1) % 2])
                if move > 0 { try await Self.follow(primary, by: replica) }
                try await Self.failOver(from: primary, to: replica)
                // The demoted server stops replicating, so its data becomes stale.
                _ = try await primary.ask(["REPLICAOF", "127.0.0.1", "1"])
                stage.forwarder.redirect(to: try #require(replica.port))
                do {
                    try await stage.waitUntilAllMoved(to: replica)
                } catch {
                    // The test continues, to report what happens to the leases.
                    Issue.record("move \(move + 1): \(error); \(try await stage.connections(at: replica)) have moved")
                    break
                }
                // A failover blocks writes for up to a second; leases not extended in between would simply expire.
                try await Self.waitUntilExtended(followed.map { coordinator.keys.lock($0.lease.name) }, at: replica)
            }
            // The wait outlasts any lease that is not extended.
            let start = ContinuousClock.now
            try await eventually("two ttls have passed") {
                ContinuousClock.now - start >= .milliseconds(2 * Self.ttlMilliseconds)
            }
            var losses: [LeaseLoss] = []
            for lease in followed {
                if let loss = await Self.lossSoFar(of: lease.followed) { losses.append(loss) }
            }
            #expect(losses.isEmpty, "\(losses.count) of \(followed.count) linked leases are reported lost: \(losses)")
        }
    }

    @Test("A subscription that reconnects to another server moves commands and tracking there too")
    func subscriptionMoves() async throws {
        try await Self.withStage { stage in
            let (first, second) = (stage.servers[0], stage.servers[1])
            stage.forwarder.redirect(to: try #require(second.port))
            _ = try await first.ask(["CLIENT", "KILL", "TYPE", "pubsub"])
            try await stage.waitUntilAllMoved(to: second)
            #expect(try await stage.connections(at: first) == 0)
        }
    }

    @Test("Deletions at the new server are noticed because tracking has moved there too")
    func deletionsAtNewServerAreNoticed() async throws {
        try await Self.withStage { stage in
            let (first, second) = (stage.servers[0], stage.servers[1])
            stage.forwarder.redirect(to: try #require(second.port))
            _ = try await first.ask(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            try await stage.waitUntilAllMoved(to: second)
            let lease = try #require(try await stage.coordinator.acquireLock(try LockRequest("job", ttl: 600_000)))
            let followed = try await stage.coordinator.followLease(lease, isLinked: false)
            try await second.waitUntilTracking(1)
            _ = try await second.ask(["DEL", stage.coordinator.keys.lock("job")])
            var loss: LeaseLoss?
            for await found in followed.losses {
                loss = found
                break
            }
            #expect(loss == .deleted)
        }
    }

    @Test("All connections leave a primary that was demoted manually under Sentinels, not only the one whose write it rejected")
    func sentinels() async throws {
        try await SentinelFleet.withFleet(replicas: 1, sentinels: 1) { fleet in
            var redis = fleet.configuration
            redis.reconnectDelay = .milliseconds(20) ... .milliseconds(200)
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(redis: redis, host: "test"),
                eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await coordinator.start()
            await coordinator.waitUntilReady(timeout: .seconds(20))
            let primary = fleet.servers[0]
            let channel = coordinator.keys.events
            func listeners() async throws -> Int64? {
                try await primary.ask(["PUBSUB", "NUMSUB", channel]).array?.last?.integer
            }
            try await eventually("the coordinator has subscribed") { try await listeners() == 1 }
            // No Sentinel remains to name the new primary.
            await fleet.sentinels[0].kill()
            _ = try await primary.ask(["REPLICAOF", "127.0.0.1", "\(try #require(fleet.servers[1].port))"])
            _ = try? await coordinator.acquireLock(try LockRequest("job"))
            var hasLeft = true
            do {
                try await eventually(within: Self.maximumMoveTime, "the subscription has left the demoted server") {
                    try await listeners() == 0
                }
            } catch { hasLeft = false }
            #expect(hasLeft, "the subscription stays at a server that rejects writes")
            await coordinator.stop()
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import Testing

@Suite("Redis fails and recovers")
struct RedisOutageTests {
    @Test("A Redis Cluster is not accepted as a single server: the sidecar is not ready, and the error says why")
    func clusterIsRefusedAsSingleServer() async throws {
        try await RedisServer.withServer(arguments: ["--cluster-enabled", "yes"]) { server in
            let sidecar = Coordinator(
                configuration: InterlockConfiguration(redis: server.configuration),
                eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await sidecar.start()
            try await eventually("the sidecar reports the cluster") {
                await sidecar.status.redisFailure?.contains("Redis is a cluster") == true
            }
            #expect(await !sidecar.isReady)
            let error = await #expect(throws: InterlockError.self) {
                _ = try await sidecar.acquireLock(try LockRequest("orders"))
            }
            #expect(error?.code == .unavailable)
            await sidecar.stop()
        }
    }

    @Test("A lock requested while Redis is unreachable is unavailable, never held")
    func lockUnavailable() async throws {
        try await Fleet.run { fleet in
            await fleet.server.kill()
            let sidecar = fleet.sidecars[0]
            do {
                _ = try await sidecar.acquireLock(try LockRequest("orders"))
                Issue.record("a lock was granted or held without Redis")
            } catch let error as InterlockError {
                #expect(error.code == .unavailable)
            }
        }
    }

    @Test("Waiters are answered as unavailable when Redis stays unreachable")
    func waitersAreAnsweredAsUnavailable() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.acquireLock(try LockRequest("orders"))
            async let waiting = sidecar.acquireLock(try LockRequest("orders", wait: 60_000))
            try await eventually(within: .seconds(5), "a caller waits") { await sidecar.status.lockWaiterCount == 1 }
            await fleet.server.kill()
            do {
                _ = try await waiting
                Issue.record("the wait was answered as if Redis were reachable")
            } catch let error as InterlockError {
                #expect(error.code == .unavailable)
            }
        }
    }

    @Test("After a restart with its data the holder still holds, and after one without data fences still rise")
    func restarts() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let first = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            try await fleet.server.restart(keepingData: true)
            for sidecar in fleet.sidecars {
                try await eventually(within: .seconds(20), "Redis is back") { await sidecar.status.isRedisUp }
            }
            #expect(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")) == nil)
            #expect(try await fleet.sidecars[1].renewLock(name, token: first.token, ttlMilliseconds: 600_000) != nil)
            try await fleet.server.restart(keepingData: false)
            for sidecar in fleet.sidecars {
                try await eventually(within: .seconds(20), "Redis is back") { await sidecar.status.isRedisUp }
            }
            let second = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            #expect(second.fence > first.fence)
        }
    }

    @Test("A waiter outlives a short outage and gets the lock after it")
    func waiterOutlivesOutage() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000)))
            async let waiting = sidecar.acquireLock(try LockRequest("orders", wait: 60_000))
            try await eventually(within: .seconds(5), "a caller waits") { await sidecar.status.lockWaiterCount == 1 }
            _ = try await fleet.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            _ = try await fleet.cli("CLIENT", "KILL", "TYPE", "pubsub")
            // If the sidecar has not noticed the lost connection yet, this release reveals it.
            try await eventually(within: .seconds(20), "Redis is back") {
                do {
                    return try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
                } catch let error as InterlockError where error.code == .unavailable {
                    return false
                }
            }
            #expect(try await waiting != nil)
        }
    }

    @Test("A sidecar that starts before its Redis serves as soon as Redis is reachable")
    func startsBeforeRedis() async throws {
        try await Fleet.run { fleet in
            await fleet.server.kill()
            let configuration = InterlockConfiguration(redis: fleet.server.configuration)
            let early = Coordinator(configuration: configuration, eventLoop: fleet.sidecars[0].eventLoop)
            await early.start()
            #expect(await early.isReady == false)
            try await fleet.server.restart(keepingData: false)
            await early.waitUntilReady()
            #expect(try await early.acquireLock(try LockRequest("orders")) != nil)
            await early.stop()
        }
    }

    @Test("A sidecar's local quota is granted once per window, however often Redis goes down and returns")
    func flappingRedis() async throws {
        let limit = LimitDefinition(name: "1h", limit: 3, window: .seconds(3600))
        try await Fleet.run(services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            let sidecar = fleet.sidecars[0]
            var grantedWithoutRedis = 0
            for _ in 0..<2 {
                await fleet.server.kill()
                try await eventually(within: .seconds(20), "Redis is unreachable") { await !sidecar.status.isRedisUp }
                for _ in 0..<5 where try await sidecar.take(service: "catalog").isAllowed { grantedWithoutRedis += 1 }
                try await fleet.server.restart(keepingData: false)
                try await eventually(within: .seconds(20), "Redis is back") { await sidecar.status.isRedisUp }
                // A refusal without Redis is remembered for a second before Redis is asked again.
                try await eventually(within: .seconds(20), "Redis grants a call") {
                    try await sidecar.take(service: "catalog").isAllowed
                }
            }
            #expect(grantedWithoutRedis == 3)
        }
    }

    @Test("A request to a paused Redis server fails as unavailable within the timeout, and leaves no lock behind")
    func pausedRedis() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.pause()
            do {
                _ = try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000))
                Issue.record("a lock was granted by a paused Redis")
            } catch let error as InterlockError {
                #expect(error.code == .unavailable)
            }
            await fleet.server.resume()
            try await eventually(within: .seconds(20), "the undelivered lock is free") {
                guard let lease = try? await sidecar.acquireLock(try LockRequest("orders")) else { return false }
                return try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
            }
        }
    }
}

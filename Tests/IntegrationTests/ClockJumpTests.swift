import Glibc
import InterlockCore
import RedisClient
import Testing

@testable import InterlockProcesses

/// Redis stores the end of every lease by its wall clock. In these tests libfaketime makes that clock jump, but not the
/// sidecars' clocks.
@Suite("Jumps of the Redis clock", .serialized, .timeLimit(.minutes(2)))
struct ClockJumpTests {
    private static let hour = 3600
    private static let ttlMilliseconds: Int64 = 30_000
    /// The maximum validity of a lease of `ttlMilliseconds`.
    private static let maximumValidity = ttlMilliseconds - LeaseValidity.driftMilliseconds(ofTTL: ttlMilliseconds)

    @Test("A jump forward expires every lock, and the next holder has a higher fence")
    func jumpForwardExpiresEveryLock() async throws {
        try await Scene.run { scene in
            let first = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            try await scene.jump(toSeconds: Self.hour)
            let lost = try await scene.renew(first, from: scene.sidecars[0], ttl: Self.ttlMilliseconds)
            #expect(lost == nil)
            let second = try #require(try await scene.acquire(from: scene.sidecars[1], ttl: Self.ttlMilliseconds))
            #expect(second.fence > first.fence)
            #expect((1...Self.maximumValidity).contains(second.validMilliseconds))
            let stillLost = try await scene.renew(first, from: scene.sidecars[0], ttl: Self.ttlMilliseconds)
            #expect(stillLost == nil)
            let isReleased = try await scene.release(first, from: scene.sidecars[0])
            #expect(!isReleased)
            let holder = try await scene.redis.send(AnyCommand(["GET", Scene.lockKey])).text
            #expect(holder == second.token)
        }
    }

    @Test("A jump forward expires a lock with a waiter, which acquires it")
    func forwardWithWaiter() async throws {
        try await Scene.run { scene in
            let first = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            async let waiting = scene.acquire(from: scene.waiter, ttl: Self.ttlMilliseconds, wait: 20_000)
            try await scene.waitUntilCallWaits()
            try await scene.jump(toSeconds: Self.hour)
            let second = try #require(try await waiting)
            #expect(second.fence > first.fence)
            let lost = try await scene.renew(first, from: scene.sidecars[0], ttl: Self.ttlMilliseconds)
            #expect(lost == nil)
        }
    }

    @Test("A jump back extends a lease in Redis but not for its holder, and grants the lock to no other client")
    func jumpBackGrantsLockToNoOtherClient() async throws {
        try await Scene.run { scene in
            let first = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            #expect((1...Self.maximumValidity).contains(first.validMilliseconds))
            try await scene.jump(toSeconds: -Self.hour)
            let extended = try await scene.lockTTL()
            #expect(extended > Self.ttlMilliseconds)
            let attempt = try await scene.acquire(from: scene.sidecars[1], ttl: Self.ttlMilliseconds)
            #expect(attempt == nil)
            // A renewal starts the lease's time again on both clocks, which undoes the jump.
            let renewed = try #require(try await scene.renew(first, from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            #expect((1...Self.maximumValidity).contains(renewed))
            let restored = try await scene.lockTTL()
            #expect((1...Self.ttlMilliseconds).contains(restored))
        }
    }

    @Test("After a jump back the next grant is immediate, and fences still rise", arguments: [0, 3600])
    func grantsAfterJumpBack(start: Int) async throws {
        try await Scene.run { scene in
            try await scene.jump(toSeconds: start)
            let first = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            try await scene.jump(toSeconds: start - Self.hour)
            let firstIsReleased = try await scene.release(first, from: scene.sidecars[0])
            #expect(firstIsReleased)
            let second = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            #expect(second.fence > first.fence)

            async let waiting = scene.acquire(from: scene.waiter, ttl: Self.ttlMilliseconds, wait: 20_000)
            try await scene.waitUntilCallWaits()
            let clock = ContinuousClock()
            let releaseTime = clock.now
            let secondIsReleased = try await scene.release(second, from: scene.sidecars[0])
            #expect(secondIsReleased)
            let third = try #require(try await waiting)
            // The periodic recheck, which makes up for lost messages, would come much later.
            #expect(clock.now - releaseTime < .seconds(3))
            #expect(third.fence > second.fence)
        }
    }

    @Test("A waiter survives a jump back and is granted by the release, with a higher fence")
    func backWithWaiter() async throws {
        try await Scene.run { scene in
            let first = try #require(try await scene.acquire(from: scene.sidecars[0], ttl: Self.ttlMilliseconds))
            async let waiting = scene.acquire(from: scene.waiter, ttl: Self.ttlMilliseconds, wait: 20_000)
            try await scene.waitUntilCallWaits()
            try await scene.jump(toSeconds: -Self.hour)
            let isReleased = try await scene.release(first, from: scene.sidecars[0])
            #expect(isReleased)
            let second = try #require(try await waiting)
            #expect(second.fence > first.fence)
        }
    }
}

extension ClockJumpTests {
    /// The answer of a sidecar to a successful acquire.
    private struct Grant: Hashable {
        var token: String
        var fence: Int64
        var validMilliseconds: Int64
    }

    /// An error for a test that cannot run.
    private struct Problem: Error, CustomStringConvertible {
        var description: String
    }

    /// Two sidecars and a lock on one Redis whose wall clock the test moves.
    private struct Scene {
        private static let lock = "orders"
        static let lockKey = "interlock:lock:{orders}"
        private static let queueKey = "interlock:queue:{orders}"
        /// A timeout longer than any wait in these tests, because a machine that runs many servers may be slow.
        private static let timeout = Duration.seconds(30)

        /// A connection to each sidecar.
        let sidecars: [RedisClient]
        /// Another connection to the last sidecar, because a waiting acquire delays the answers behind it.
        let waiter: RedisClient
        let redis: RedisClient
        private let clock: FakeClock

        /// Runs `body` with the Redis clock at the true time, and stops everything afterwards, even if `body` throws.
        static func run(_ body: (Scene) async throws -> Void) async throws {
            let folder = try TemporaryFolder()
            defer { folder.remove() }
            let clock = try await FakeClock(file: "\(folder.path)/clock")
            try await RedisServer.withServer(listener: .none, environment: clock.environment) { server in
                try await SidecarProcess.withSidecar(arguments: ["--redis", server.url]) { first in
                    try await SidecarProcess.withSidecar(arguments: ["--redis", server.url]) { second in
                        let scene = Scene(
                            sidecars: [client(of: first), client(of: second)], waiter: client(of: second),
                            redis: RedisClient(configuration: server.configuration), clock: clock)
                        try await scene.whileConnected { try await body(scene) }
                    }
                }
            }
        }

        /// Sets the offset of Redis's wall clock from the true time, in seconds, and waits until Redis shows it.
        func jump(toSeconds offset: Int) async throws {
            try clock.setOffset(seconds: offset)
            try await eventually("the test needs the package faketime, which `make setup` installs") {
                let reply = try await redis.send(AnyCommand(["TIME"]))
                guard let seconds = reply.array?.first?.integer else { throw Problem(description: "TIME: \(reply)") }
                // The jumps of these tests are hours.
                return abs(Int(seconds) - Glibc.time(nil) - offset) < 60
            }
        }

        /// Acquires the lock; `nil` if another client holds it.
        func acquire(from sidecar: RedisClient, ttl: Int64, wait: Int64 = 0) async throws -> Grant? {
            let reply = try await call(sidecar, ["LOCK.ACQUIRE", Self.lock, "\(ttl)", "WAIT", "\(wait)"])
            if reply == .null { return nil }
            guard let parts = reply.array, parts.count == 3, let token = parts[0].text, let fence = parts[1].integer,
                let valid = parts[2].integer
            else { throw Problem(description: "LOCK.ACQUIRE: \(reply)") }
            return Grant(token: token, fence: fence, validMilliseconds: valid)
        }

        /// Renews the lease. Returns its validity in milliseconds; `nil` if it was lost.
        func renew(_ grant: Grant, from sidecar: RedisClient, ttl: Int64) async throws -> Int64? {
            let reply = try await call(sidecar, ["LOCK.RENEW", Self.lock, grant.token, "\(ttl)"])
            if reply == .null { return nil }
            guard let valid = reply.integer else { throw Problem(description: "LOCK.RENEW: \(reply)") }
            return valid
        }

        /// Releases the lease. Returns `false` if the token did not hold the lock.
        func release(_ grant: Grant, from sidecar: RedisClient) async throws -> Bool {
            let reply = try await call(sidecar, ["LOCK.RELEASE", Self.lock, grant.token])
            guard let releasedCount = reply.integer else { throw Problem(description: "LOCK.RELEASE: \(reply)") }
            return releasedCount == 1
        }

        /// Returns the remaining time of the lease by the Redis clock, in milliseconds.
        func lockTTL() async throws -> Int64 {
            let reply = try await redis.send(AnyCommand(["PTTL", Self.lockKey]))
            guard let ttl = reply.integer else { throw Problem(description: "PTTL: \(reply)") }
            return ttl
        }

        func waitUntilCallWaits() async throws {
            try await eventually("a call waits") {
                try await redis.send(AnyCommand(["ZCARD", Self.queueKey])).integer == 1
            }
        }

        private func call(_ sidecar: RedisClient, _ words: [String]) async throws -> RedisReply {
            try await sidecar.send(AnyCommand(words), timeout: Self.timeout)
        }

        private func whileConnected(_ body: () async throws -> Void) async throws {
            let clients = sidecars + [waiter, redis]
            let outcome: Result<Void, any Error>
            do {
                for client in clients { try await client.connect() }
                try await body()
                outcome = .success(())
            } catch {
                outcome = .failure(error)
            }
            for client in clients { await client.close() }
            try outcome.get()
        }

        private static func client(of sidecar: SidecarProcess) -> RedisClient {
            var configuration = RedisConfiguration(address: .host("127.0.0.1", port: sidecar.respPort))
            configuration.connectTimeout = timeout
            return RedisClient(configuration: configuration)
        }
    }
}

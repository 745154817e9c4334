import InterlockCore
import InterlockProcesses
import Logging
import RedisClient
import Testing

@testable import Interlock

@Suite("Leases that wait for replicas", .timeLimit(.minutes(2)))
struct ReplicaWaitTests {
    @Test(
        "Without enough replicas no caller gets the lock, the error says why, and no key remains",
        arguments: [LockMode.exclusive, .shared])
    func withoutReplica(mode: LockMode) async throws {
        try await Fleet.run(locks: LockSettings(waitReplicas: 1)) { fleet in
            try await Self.waitUntilLocksAreServed(by: fleet)
            var request = try LockRequest("orders", ttl: 600_000)
            request.mode = mode
            let code = await Self.code { _ = try await fleet.sidecars[0].acquireLock(request) }
            #expect(code == .unreplicated)
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test("The log reports once that too few replicas have leases, and once that enough have them again")
    func logged() async throws {
        let log = LineLog()
        try await Self.withReplica(logger: Logger(label: "test") { _ in log }) { fleet, replica, _ in
            func count(_ event: String) -> Int { log.lines.count { $0.contains("event=\(event) ") } }
            var lockCount = 0
            func acquire() async -> InterlockError.Code? {
                lockCount += 1
                let name = "job-\(lockCount)"
                return await Self.code { _ = try await fleet.sidecars[0].acquireLock(try LockRequest(name, ttl: 600_000)) }
            }
            #expect(count("lock.unreplicated") == 0)
            _ = try await replica.send(AnyCommand(["REPLICAOF", "NO", "ONE"]))
            try await eventually("the replica is gone") { await acquire() == .unreplicated }
            #expect(await acquire() == .unreplicated)
            #expect(count("lock.unreplicated") == 1, "\(log.lines)")
            #expect(count("lock.replicated") == 0)
            let port = try #require(fleet.server.port)
            _ = try await replica.send(AnyCommand(["REPLICAOF", "127.0.0.1", "\(port)"]))
            try await eventually("the log says that enough replicas confirm leases") {
                _ = await acquire()
                return count("lock.replicated") == 1
            }
            #expect(count("lock.unreplicated") == 1, "\(log.lines)")
        }
    }

    @Test("Servers of a cluster with enough and with too few replicas in turn are logged once")
    func loggedOncePerShortage() {
        var log = ReplicaShortageLog()
        var events: [CoordinatorLogEvent] = []
        func confirm(_ isEnough: Bool, second: Int64) {
            let now = Instant(nanoseconds: second * 1_000_000_000)
            if let event = log.event(isEnough: isEnough, now: now) { events.append(event) }
        }
        confirm(true, second: 0)
        for second in stride(from: Int64(1), to: 3_600, by: 2) {
            confirm(false, second: second)
            confirm(true, second: second + 1)
        }
        #expect(events == [.lockUnreplicated])
        confirm(true, second: 3_605)
        confirm(true, second: 3_606)
        #expect(events == [.lockUnreplicated, .lockReplicated])
    }

    @Test("A waiter whose turn comes without enough replicas gets the reason, and the lock passes to the next one")
    func waiterWithoutReplica() async throws {
        try await Fleet.run(locks: LockSettings(waitReplicas: 1)) { fleet in
            try await Self.waitUntilLocksAreServed(by: fleet)
            try await fleet.cli("SET", Self.key, "other", "PX", "60000")
            let sidecar = fleet.sidecars[0]
            let waiters = (0..<2).map { _ in
                Task { try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000)) }
            }
            try await eventually("both callers wait") { await sidecar.status.lockWaiterCount == 2 }
            try await fleet.cli("DEL", Self.key)
            for waiter in waiters {
                let code = await Self.code { _ = try await waiter.value }
                #expect(code == .unreplicated)
            }
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test(
        "With a replica the lock is granted, and the replica has it when the answer arrives",
        arguments: [LockMode.exclusive, .shared])
    func withReplica(mode: LockMode) async throws {
        try await Self.withReplica { fleet, replica, _ in
            for number in 0..<20 {
                var request = try LockRequest("job-\(number)", ttl: 600_000)
                request.mode = mode
                _ = try #require(try await fleet.sidecars[0].acquireLock(request))
                let replicated = try await replica.send(AnyCommand(["GET", "interlock:lock:{job-\(number)}"])).text
                let token = try #require(try await fleet.cli("GET", "interlock:lock:{job-\(number)}").text)
                #expect(replicated == token)
            }
        }
    }

    @Test("With a replica a handed-over lock is granted, and the replica has it when the answer arrives")
    func handedOver() async throws {
        try await Self.withReplica { fleet, replica, _ in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000)))
            async let next = sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000))
            try await eventually("a caller waits") { await sidecar.status.lockWaiterCount == 1 }
            let isReleased = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
            let nextLease = try #require(try await next)
            let replicated = try await replica.send(AnyCommand(["GET", Self.key])).text
            #expect(replicated == nextLease.token)
        }
    }

    @Test("While the replica hangs, leases are renewed and released, however many acquires of other locks wait")
    func renewedMeanwhile() async throws {
        try await Self.withReplica { fleet, _, server in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000)))
            await server.pause()
            let acquires = (0..<40).map { number in
                Task { await Self.code { _ = try await sidecar.acquireLock(try LockRequest("job-\(number)", ttl: 600_000)) } }
            }
            // Each acquire gets an answer, and none delays the renewals.
            for _ in 0..<5 {
                let valid = try await sidecar.renewLock(
                    try ResourceName("orders"), token: lease.token, ttlMilliseconds: 600_000)
                #expect(valid != nil)
            }
            for call in acquires { #expect(await call.value == .unreplicated) }
            #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token))
            await server.resume()
        }
    }

    @Test(
        "A renewal is valid only until the lease ends on the replicas, because a failover may promote one of them",
        arguments: [LockMode.exclusive, .shared])
    func renewalWithoutReplica(mode: LockMode) async throws {
        try await Self.withReplica { fleet, _, server in
            let sidecar = fleet.sidecars[0]
            var request = try LockRequest("orders", ttl: 60_000)
            request.mode = mode
            let lease = try #require(try await sidecar.acquireLock(request))
            await server.pause()
            let name = try ResourceName("orders")
            let valid = try #require(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 600_000))
            #expect(valid <= 60_000)
            await server.resume()
            try await eventually("the replica has the renewal too") {
                try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 600_000) ?? 0 > 60_000
            }
        }
    }

    @Test("A lease that its holder shortened is valid for longer only once replicas have the renewal")
    func shorterRenewalWithoutReplica() async throws {
        try await Self.withReplica { fleet, _, server in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName("orders")
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000)))
            await server.pause()
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) ?? 0 <= 60_000)
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 600_000) ?? 0 <= 60_000)
            await server.resume()
        }
    }

    @Test("A write repeated for replicas always reaches Redis and shortens no lease", arguments: [false, true])
    func repeatedWrite(isGroup: Bool) async throws {
        try await Fleet.run { fleet in
            var request = try LockRequest("orders", ttl: 600_000)
            request.mode = isGroup ? .shared : .exclusive
            let lease = try #require(try await fleet.sidecars[0].acquireLock(request))
            let keys = LockKeys(scripts: LockScripts(LockSettings(), isOnCluster: false), space: KeySpace(), name: "orders")
            func renewals() async throws -> Int {
                let statistics = try await fleet.cli("INFO", "commandstats").text ?? ""
                let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_pexpire:calls=") }
                return line.flatMap { Int($0.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) } ?? 0
            }
            for ttl in [1000, 900_000] as [Int64] {
                let before = try await renewals()
                let script = RenewScript(
                    keys: keys, token: lease.token, ttlMilliseconds: ttl, isGroup: isGroup, purpose: .replicate)
                #expect(try await fleet.redis.send(script) == .held)
                #expect(try await renewals() > before)
                #expect(try await fleet.cli("PTTL", Self.key).integer ?? 0 > max(ttl, 590_000) - 10_000)
            }
        }
    }

    @Test("A lease granted by another sidecar is not renewed until a replica has it")
    func renewalElsewhereWithoutReplica() async throws {
        try await Self.withReplica(sidecars: 2) { fleet, _, server in
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 60_000)))
            let other = fleet.sidecars[1]
            await server.pause()
            let code = await Self.code {
                _ = try await other.renewLock(try ResourceName("orders"), token: lease.token, ttlMilliseconds: 600_000)
            }
            #expect(code == .unreplicated)
            await server.resume()
        }
    }

    @Test("A linked lease that no replica extends ends when it would end on the replicas")
    func linkedWithoutReplica() async throws {
        try await Self.withReplica { fleet, _, server in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 1500)))
            let followed = try await sidecar.followLease(lease, isLinked: true)
            await server.pause()
            #expect(await followed.losses.first { _ in true } == .expired)
            await server.resume()
        }
    }

    @Test("While the replica hangs no caller gets the lock, and once it resumes callers do")
    func hangingReplica() async throws {
        try await Self.withReplica { fleet, _, server in
            await server.pause()
            let code = await Self.code { _ = try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)) }
            #expect(code == .unreplicated)
            await server.resume()
            try await Self.waitUntilFree(in: fleet)
            try await eventually("the lock is granted") {
                do {
                    return try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)) != nil
                } catch let error as InterlockError where error.code == .unreplicated {
                    // The replica is still catching up.
                    return false
                }
            }
        }
    }
}

extension ReplicaWaitTests {
    private static let key = "interlock:lock:{orders}"

    /// Runs `body` with sidecars whose Redis has one synchronized replica, a client of the replica, and the replica.
    private static func withReplica(
        sidecars: Int = 1, logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ body: (Fleet, RedisClient, RedisServer) async throws -> Void
    ) async throws {
        try await Fleet.run(of: sidecars, locks: LockSettings(waitReplicas: 1), logger: logger) { fleet in
            try await RedisServer.withServer { server in
                let replica = RedisClient(configuration: server.configuration)
                try await replica.connect()
                let port = try #require(fleet.server.port)
                // Without this setting, the first synchronization waits for further replicas.
                try await fleet.cli("CONFIG", "SET", "repl-diskless-sync-delay", "0")
                _ = try await replica.send(AnyCommand(["REPLICAOF", "127.0.0.1", "\(port)"]))
                try await eventually("the replica is synchronized") {
                    // A replica that is loading the transferred data answers nothing else.
                    guard let info = try? await replica.send(Info(section: "replication")) else { return false }
                    let report = try await fleet.redis.send(Info(section: "replication"))
                    return info["master_link_status"] == "up" && report["slave0"]?.contains("state=online") ?? false
                }
                try await waitUntilLocksAreServed(by: fleet)
                let outcome: Result<Void, any Error>
                do {
                    try await body(fleet, replica, server)
                    outcome = .success(())
                } catch {
                    outcome = .failure(error)
                }
                await replica.close()
                try outcome.get()
            }
        }
    }

    /// Waits for the connection of locks that wait for replicas, which may connect slightly later than the others.
    private static func waitUntilLocksAreServed(by fleet: Fleet) async throws {
        for sidecar in fleet.sidecars {
            try await eventually("locks are served") {
                await code { _ = try await sidecar.acquireLock(try LockRequest("nobody-has-it", ttl: 10)) } != .unavailable
            }
        }
    }

    private static func waitUntilFree(in fleet: Fleet) async throws {
        try await eventually("the lock is free, and no one waits for it") {
            try await fleet.cli("EXISTS", key, "interlock:queue:{orders}", "interlock:holders:{orders}").integer == 0
        }
    }

    /// Returns the code of the `InterlockError` that `call` throws; `nil` if it succeeds or throws another error.
    private static func code(of call: () async throws -> Void) async -> InterlockError.Code? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? InterlockError)?.code
        }
    }
}

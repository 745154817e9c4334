import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Regression tests for faults of locks. Each test is the shortest story that shows one.
@Suite("Locks: regressions", .timeLimit(.minutes(2)))
struct LockFaultTests {
    static func request(
        _ name: String, ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil, mode: LockMode = .exclusive
    ) throws -> LockRequest {
        LockRequest(
            name: try ResourceName(name), ttlMilliseconds: ttl, waitMilliseconds: wait, owner: owner, mode: mode)
    }

    @Test("A waiter with an OWNER that is not granted the lock does not hold it", arguments: [0, 1])
    func refusedWaiter(through releaser: Int) throws {
        let stage = Stage(sidecars: 2, redisMilliseconds: 5)
        for round in 0..<60 {
            let name = "orders-\(round)"
            let holder = try #require(stage.result(of: stage.acquire(try Self.request(name), through: releaser))?.lease)
            let waiter = stage.acquire(try Self.request(name, wait: 400, owner: "me"))
            stage.run(milliseconds: 350 + Int64(round))
            _ = stage.release(holder, through: releaser)
            let answer = try #require(stage.result(of: waiter))
            stage.run(milliseconds: 500)
            let isMine = stage.cli("GET", "interlock:lock:{\(name)}").contains("me")
            #expect(isMine == (answer.lease != nil), "round \(round)")
            #expect(waiter.resultCount == 1)
        }
    }

    /// Returns a stage and its second lease of a lock. The first one was released, so Redis has cached all scripts.
    private static func stageWithCachedScripts(maximumPending: Int = 100_000) throws -> (Stage, Lease) {
        let stage = Stage(maximumPending: maximumPending)
        let first = try #require(stage.result(of: stage.acquire(try request("orders")))?.lease)
        _ = stage.result(of: stage.release(first))
        return (stage, try #require(stage.result(of: stage.acquire(try request("orders", ttl: 60_000)))?.lease))
    }

    @Test("A waiter learns that an unanswered release has handed it the lock", arguments: [nil, "me"])
    func unansweredRelease(owner: String?) throws {
        let (stage, holder) = try Self.stageWithCachedScripts()
        let waiter = stage.acquire(try Self.request("orders", wait: 3000, owner: owner))
        stage.run(milliseconds: 100)
        // Redis receives the release but executes it after the sidecar has given up on it.
        stage.redis.stop()
        let release = stage.release(holder)
        stage.run(upToMilliseconds: 2000) { release.result != nil }
        guard case .failed? = release.result else {
            return #expect(Bool(false), "\(String(describing: release.result))")
        }
        stage.redis.resume()
        stage.run(milliseconds: 50)
        #expect(waiter.result?.lease != nil, "\(String(describing: waiter.result))")
        stage.run(milliseconds: 5000)
        #expect(waiter.resultCount == 1)
    }

    @Test("A waiter that may have been handed the lock is not answered as held when its wait ends", arguments: [nil, "me"])
    func unansweredReleaseAtTheEndOfTheWait(owner: String?) throws {
        let (stage, holder) = try Self.stageWithCachedScripts()
        let waiter = stage.acquire(try Self.request("orders", wait: 300, owner: owner))
        stage.run(milliseconds: 100)
        stage.redis.stop()
        _ = stage.release(holder)
        stage.run(upToMilliseconds: 2000) { waiter.result != nil }
        stage.redis.resume()
        guard case .failed(let error)? = waiter.result else {
            return #expect(Bool(false), "\(String(describing: waiter.result))")
        }
        #expect(error.code == .unavailable)
        stage.run(milliseconds: 200)
        // A lease with an owner remains, because a retry may claim it. A lease without an owner was released.
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}") == (owner == nil ? ":0" : ":1"))
        #expect(waiter.resultCount == 1)
    }

    @Test("A waiter that cannot send its request releases a lock that an unanswered release may have handed it")
    func unansweredReleaseWithAFullPipeline() throws {
        let (stage, holder) = try Self.stageWithCachedScripts(maximumPending: 2)
        let waiter = stage.acquire(try Self.request("orders", wait: 3000))
        stage.run(milliseconds: 100)
        stage.redis.stop()
        _ = stage.release(holder)
        // The maximum of two pending commands is now reached.
        _ = stage.acquire(try Self.request("another"))
        stage.run(upToMilliseconds: 2000) { waiter.result != nil }
        guard case .failed(let error)? = waiter.result else {
            return #expect(Bool(false), "\(String(describing: waiter.result))")
        }
        #expect(error.code == .unavailable)
        stage.redis.resume()
        #expect(stage.run(upToMilliseconds: 6000) { stage.cli("EXISTS", "interlock:lock:{orders}") == ":0" })
    }

    /// Returns a stage whose second sidecar has a reader, with a writer waiting at the first.
    private static func writerBehindAReader() throws -> Stage {
        let stage = Stage(sidecars: 3)
        _ = try #require(stage.result(of: stage.acquire(try request("report", ttl: 60_000, mode: .shared), through: 1))?.lease)
        _ = stage.acquire(try request("report", wait: 60_000))
        stage.run(milliseconds: 100)
        return stage
    }

    /// Expects a reader at the third sidecar to be granted the lock within the claim window.
    private static func expectReaderLetIn(on stage: Stage) throws {
        let began = stage.milliseconds
        let reader = stage.acquire(try request("report", wait: 30_000, mode: .shared), through: 2)
        #expect(stage.result(of: reader)?.lease != nil)
        #expect((reader.endedAtMilliseconds ?? 60_000) - began <= 400)
    }

    @Test("A paused sidecar with a writer at the head of the queue delays readers by at most the claim window")
    func stoppedWriter() throws {
        let stage = try Self.writerBehindAReader()
        stage.sidecars[0].stop()
        try Self.expectReaderLetIn(on: stage)
    }

    @Test("A killed sidecar with a writer does not delay readers, even if a program subscribes to every wake-up channel")
    func killedWriter() throws {
        let stage = try Self.writerBehindAReader()
        let everything = stage.redis.server.connect { _ in }
        everything.receive("PSUBSCRIBE", "interlock:wake:*")
        stage.sidecars[0].kill()
        stage.run(milliseconds: 100)
        try Self.expectReaderLetIn(on: stage)
    }

    @Test(
        "Readers behind a writer whose sidecar disappears are granted the lock when that sidecar should have rechecked",
        arguments: [0, 500, 3000, 4900], [false, true])
    func waitingReaders(_ milliseconds: Int64, isKilled: Bool) throws {
        let stage = Stage(sidecars: 4)
        _ = try #require(
            stage.result(of: stage.acquire(try Self.request("report", ttl: 60_000, mode: .shared), through: 1))?.lease)
        _ = stage.acquire(try Self.request("report", wait: 60_000))
        stage.run(milliseconds: 100)
        let readers = try [2, 3].map { stage.acquire(try Self.request("report", wait: 60_000, mode: .shared), through: $0) }
        stage.run(milliseconds: 1000 + milliseconds)
        #expect(readers.allSatisfy { $0.result == nil })
        let began = stage.milliseconds
        if isKilled { stage.sidecars[0].kill() } else { stage.sidecars[0].stop() }
        stage.run(milliseconds: 15_000)
        // Redis reports that a killed sidecar's channel has no subscribers.
        let maximum = LockQueue.recheckMilliseconds + (isKilled ? 0 : LockQueue.claimWindowMilliseconds)
        for reader in readers {
            #expect(reader.result?.lease != nil)
            #expect((reader.endedAtMilliseconds ?? 60_000) - began <= maximum + 50)
        }
    }

    @Test("A new reader waits no longer than readers that have just checked")
    func newReader() throws {
        let stage = try Self.writerBehindAReader()
        let early = stage.acquire(try Self.request("report", wait: 60_000, mode: .shared), through: 1)
        stage.run(milliseconds: 500)
        stage.sidecars[0].stop()
        let began = stage.milliseconds
        let late = stage.acquire(try Self.request("report", wait: 60_000, mode: .shared), through: 2)
        #expect(stage.result(of: late)?.lease != nil)
        #expect(stage.result(of: early)?.lease != nil)
        #expect(
            (late.endedAtMilliseconds ?? 60_000) - began <= LockQueue.recheckMilliseconds
                + LockQueue.claimWindowMilliseconds)
    }

    @Test("A writer of an older version, which does not mark its ticket, keeps its position ahead of readers")
    func writerOfAnOlderVersion() throws {
        let stage = Stage(sidecars: 2)
        _ = try #require(
            stage.result(of: stage.acquire(try Self.request("report", ttl: 60_000, mode: .shared), through: 1))?.lease)
        // This connection imitates a sidecar of an older version, which sets no mark in its ticket.
        let oldSidecar = stage.redis.server.connect { _ in }
        oldSidecar.receive("SUBSCRIBE", "interlock:wake:0123456789ab")
        stage.cli("ZADD", "interlock:queue:{report}", "1", "0123456789ab/0123456789abcdef0123456789abcdef")
        stage.cli("PEXPIRE", "interlock:queue:{report}", "60000")
        let before = stage.status(of: 1)?.redisCommandCount ?? 0
        let reader = stage.acquire(try Self.request("report", wait: 20_000, mode: .shared), through: 1)
        #expect(stage.result(of: reader)?.isHeld == true)
        // The reader does not poll while it waits.
        #expect((stage.status(of: 1)?.redisCommandCount ?? 0) - before < 40)
    }

    @Test("Readers do not pass a live writer, even if it waits for long")
    func liveWriter() throws {
        let stage = Stage(sidecars: 3)
        let held = try #require(
            stage.result(of: stage.acquire(try Self.request("report", ttl: 60_000, mode: .shared), through: 1))?.lease)
        let writer = stage.acquire(try Self.request("report", wait: 60_000))
        stage.run(milliseconds: 100)
        let reader = stage.acquire(try Self.request("report", wait: 60_000, mode: .shared), through: 2)
        let before = stage.status(of: 2)?.redisCommandCount ?? 0
        stage.run(milliseconds: 20_000)
        #expect(reader.result == nil)
        // The reader does not poll while it waits.
        #expect((stage.status(of: 2)?.redisCommandCount ?? 0) - before < 60)
        _ = stage.release(held, through: 1)
        #expect(stage.result(of: writer)?.lease != nil)
        #expect(reader.result == nil)
    }

    @Test("All readers that wait in one sidecar are granted the lock together")
    func readersTogether() throws {
        let stage = Stage(sidecars: 2)
        let writer = try #require(stage.result(of: stage.acquire(try Self.request("report"), through: 1))?.lease)
        let readers = try (0..<6).map { _ in stage.acquire(try Self.request("report", wait: 30_000, mode: .shared)) }
        stage.run(milliseconds: 100)
        _ = stage.release(writer, through: 1)
        stage.run(milliseconds: 100)
        #expect(readers.allSatisfy { $0.result?.lease != nil })
    }

    @Test("A ticket that was not withdrawn blocks no waiter", arguments: [LockMode.permits(1), .shared])
    func staleTicket(mode: LockMode) throws {
        let stage = Stage(sidecars: 2)
        let ttl: Int64 = 2000
        _ = try #require(stage.result(of: stage.acquire(try Self.request("places", ttl: ttl, mode: mode), through: 1))?.lease)
        let id = try #require(stage.status()?.id)
        // A ticket that its live sidecar has forgotten.
        stage.cli("ZADD", "interlock:queue:{places}", "1", "\(id)/ticket/0123456789abcdef0123456789abcdef")
        stage.cli("PEXPIRE", "interlock:queue:{places}", "60000")
        let before = stage.status()?.redisCommandCount ?? 0
        let began = stage.milliseconds
        let waiter = stage.acquire(try Self.request("places", wait: 30_000, mode: mode))
        #expect(stage.result(of: waiter)?.lease != nil)
        #expect((waiter.endedAtMilliseconds ?? 60_000) - began <= (mode == .shared ? 100 : ttl + 400))
        #expect((stage.status()?.redisCommandCount ?? 0) - before < 40)
    }

    @Test("An expired slot of a semaphore goes to the next waiter immediately")
    func lapsedSlot() throws {
        let stage = Stage(sidecars: 2)
        let mode = LockMode.permits(2)
        _ = try #require(stage.result(of: stage.acquire(try Self.request("places", ttl: 1000, mode: mode), through: 1))?.lease)
        let long = try #require(
            stage.result(of: stage.acquire(try Self.request("places", ttl: 60_000, mode: mode), through: 1))?.lease)
        let first = stage.acquire(try Self.request("places", ttl: 1500, wait: 30_000, mode: mode))
        let second = stage.acquire(try Self.request("places", ttl: 60_000, wait: 30_000, mode: mode))
        #expect(stage.result(of: first)?.lease != nil)
        let granted = try #require(first.endedAtMilliseconds)
        #expect(stage.result(of: second)?.lease != nil)
        #expect((second.endedAtMilliseconds ?? 0) - granted <= 1600)
        _ = long
    }

    @Test("A repeated call does not wait for others once its first copy is granted", arguments: [0, 1])
    func repeatedCall(through releaser: Int) throws {
        let stage = Stage(sidecars: 2)
        let holder = try #require(stage.result(of: stage.acquire(try Self.request("orders"), through: releaser))?.lease)
        let first = stage.acquire(try Self.request("orders", wait: 20_000, owner: "me"))
        stage.run(milliseconds: 10)
        let other = stage.acquire(try Self.request("orders", wait: 20_000))
        stage.run(milliseconds: 10)
        let second = stage.acquire(try Self.request("orders", wait: 20_000, owner: "me"))
        stage.run(milliseconds: 50)
        _ = stage.release(holder, through: releaser)
        stage.run(milliseconds: 100)
        let lease = try #require(first.result?.lease)
        #expect(second.result?.lease?.fence == lease.fence)
        #expect(second.result?.lease?.token == lease.token)
        #expect(second.resultCount == 1)
        #expect(other.result == nil)
        _ = stage.release(lease)
        #expect(stage.result(of: other)?.lease != nil)
    }

    @Test(
        "A repeated call whose wait ends while its other copy is granted the lock is not refused",
        arguments: [LockMode.exclusive, .shared], [0, 3])
    func repeatedCallIsNotRefused(mode: LockMode, quorum servers: Int) throws {
        guard servers == 0 || mode == .exclusive else { return }
        for (wait, releaser) in (500...560).flatMap({ wait in [0, 1, nil].map { (Int64(wait), $0) } }) {
            let stage = Stage(sidecars: 2, quorum: servers, redisMilliseconds: 10)
            let through = releaser ?? 0
            let held = try Self.request("orders", ttl: releaser == nil ? 530 : 30_000)
            let holder = try #require(stage.result(of: stage.acquire(held, through: through))?.lease)
            let first = stage.acquire(try Self.request("orders", wait: 20_000, owner: "me", mode: mode))
            let second = stage.acquire(try Self.request("orders", wait: wait, owner: "me", mode: mode))
            stage.run(milliseconds: 520)
            if releaser != nil { _ = stage.release(holder, through: through) }
            let lease = try #require(stage.result(of: first)?.lease)
            _ = try #require(stage.result(of: second))
            // A reply to a request sent after the refusal arrives a round trip later.
            let isTooEarly = try #require(first.endedAtMilliseconds) < #require(second.endedAtMilliseconds) + 20
            #expect(second.result?.lease?.token == lease.token || !isTooEarly, "\(wait), \(releaser ?? -1)")
            #expect(first.resultCount == 1 && second.resultCount == 1)
        }
    }

    @Test(
        "A lease is renewed at maxmemory, however many hold the lock", arguments: [LockMode.shared, .permits(3), .exclusive])
    func leaseIsRenewedAtMaxmemory(mode: LockMode) throws {
        let stage = Stage()
        let lease = try #require(stage.result(of: stage.acquire(try Self.request("report", ttl: 5000, mode: mode)))?.lease)
        stage.redis.server.condition = .outOfMemory
        stage.run(milliseconds: 1000)
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 10_000)) else {
            return #expect(Bool(false), "not extended")
        }
        let left = stage.cli("PTTL", "interlock:lock:{report}").dropFirst()
        #expect(Int(left).map { $0 > 9000 } == true, "\(left)")
    }

    @Test(
        "Fences rise although the Redis clock was far ahead for a while and the fence's key has expired since",
        arguments: [0, 3])
    func clockWasAhead(quorum servers: Int) throws {
        let stage = Stage(quorum: servers)
        let hosts = servers == 0 ? [stage.redis] : stage.quorum
        for host in hosts { host.setClock(aheadByMilliseconds: 86_400_000 * 365) }
        let first = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        _ = stage.result(of: stage.release(first))
        for host in hosts { host.setClock(aheadByMilliseconds: 0) }
        stage.run(milliseconds: 100)
        let second = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        _ = stage.result(of: stage.release(second))
        for host in hosts { host.setClock(aheadByMilliseconds: 86_400_000 * 2) }
        stage.run(milliseconds: 1000)
        let third = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        #expect(first.fence < second.fence)
        #expect(second.fence < third.fence)
    }

    @Test("The fence of an unused lock is forgotten after fence_lifetime", arguments: [0, 3])
    func fenceLifetime(quorum servers: Int) throws {
        let stage = Stage(quorum: servers, locks: LockSettings(fenceLifetime: .seconds(60)))
        let lease = try #require(stage.result(of: stage.acquire(try Self.request("orders", ttl: 90_000)))?.lease)
        let host = servers == 0 ? stage.redis : stage.quorum[0]
        let left = try #require(Int(stage.cli("PTTL", "interlock:fence:{orders}", on: host).dropFirst()))
        // The fence is kept for at least as long as the lease.
        #expect((85_000...90_000).contains(left))
        _ = stage.result(of: stage.release(lease))
        // The fence is kept for longer again once it has caught up with the Redis clock.
        stage.run(milliseconds: 200)
        _ = try #require(stage.result(of: stage.acquire(try Self.request("orders", ttl: 1000)))?.lease)
        let shorter = try #require(Int(stage.cli("PTTL", "interlock:fence:{orders}", on: host).dropFirst()))
        #expect((55_000...60_000).contains(shorter))
    }

    @Test("On a quorum, the fence of a renewed lease lasts at least as long as the lease, even for fence_lifetime")
    func fenceOfRenewedLease() throws {
        let stage = Stage(quorum: 3, locks: LockSettings(fenceLifetime: .seconds(60)))
        let lease = try #require(stage.result(of: stage.acquire(try Self.request("orders", ttl: 60_000)))?.lease)
        stage.run(milliseconds: 20_000)
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000)) else {
            return #expect(Bool(false), "the renewal failed")
        }
        stage.run(milliseconds: 100)
        for host in stage.quorum {
            func left(_ key: String) throws -> Int { try #require(Int(stage.cli("PTTL", key, on: host).dropFirst())) }
            #expect(try left("interlock:fence:{orders}") >= left("interlock:lock:{orders}"))
        }
    }

    @Test(
        "An owner that acquires again for a shorter time keeps its longer lease",
        arguments: [(LockMode.exclusive, 0), (.shared, 0), (.permits(2), 0), (.exclusive, 3)])
    func notShortened(mode: LockMode, quorum servers: Int) throws {
        let stage = Stage(quorum: servers)
        _ = try #require(
            stage.result(of: stage.acquire(try Self.request("orders", ttl: 60_000, owner: "me", mode: mode)))?.lease)
        _ = try #require(
            stage.result(of: stage.acquire(try Self.request("orders", ttl: 1000, owner: "me", mode: mode)))?.lease)
        stage.run(milliseconds: 2000)
        let other = stage.acquire(try Self.request("orders", mode: mode == .exclusive ? .shared : .exclusive))
        let host = servers == 0 ? stage.redis : stage.quorum[0]
        let left = try #require(Int(stage.cli("PTTL", "interlock:lock:{orders}", on: host).dropFirst()))
        #expect(left > 50_000)
        _ = stage.result(of: other)
    }

    @Test("After a handover the fence is kept for as long as the lease")
    func fenceAfterHandOver() throws {
        let stage = Stage(sidecars: 2, locks: LockSettings(maximumTTL: .seconds(864_000)))
        let holder = try #require(stage.result(of: stage.acquire(try Self.request("orders"), through: 1))?.lease)
        let waiter = stage.acquire(try Self.request("orders", ttl: 864_000_000, wait: 20_000))
        stage.run(milliseconds: 100)
        _ = stage.release(holder, through: 1)
        #expect(stage.result(of: waiter)?.lease != nil)
        let left = try #require(Int(stage.cli("PTTL", "interlock:fence:{orders}").dropFirst()))
        #expect(left > 860_000_000)
    }

    @Test("A host name of 12 hexadecimal digits, as Docker assigns them, holds a lock like any other")
    func hostOfHexadecimalDigits() throws {
        let stage = Stage(sidecars: 2)
        var exclusive = try Self.request("orders")
        exclusive.label = "0123456789ab"
        _ = try #require(stage.result(of: stage.acquire(exclusive))?.lease)
        let semaphore = stage.acquire(try Self.request("orders", wait: 5000, mode: .permits(3)), through: 1)
        guard case .failed(let error)? = stage.result(of: semaphore) else { return #expect(Bool(false), "it waited") }
        #expect(error.code == .invalid)
        #expect((semaphore.endedAtMilliseconds ?? 0) < 2000)
    }

    @Test("Calls that wait when Redis becomes unreachable fail within its timeout, not at the end of their wait")
    func waitersFail() throws {
        let stage = Stage()
        _ = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        let waiters = try (0..<3).map { _ in stage.acquire(try Self.request("orders", wait: 60_000)) }
        stage.run(milliseconds: 200)
        stage.redis.crash()
        stage.run(milliseconds: 3000)
        for waiter in waiters {
            guard case .failed(let error)? = waiter.result else { return #expect(Bool(false), "it still waits") }
            #expect(error.code == .unavailable)
        }
    }

    @Test("A call that tries before it waits is answered once if Redis is unreachable for too long")
    func answeredOnce() throws {
        let stage = Stage(redisMilliseconds: 50)
        _ = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        _ = stage.acquire(try Self.request("orders", wait: 60_000))
        stage.run(milliseconds: 200)
        let trier = stage.acquire(try Self.request("orders", wait: 60_000, owner: "me"))
        stage.path(of: 0).isBlackHole = true
        stage.run(milliseconds: 5000)
        stage.path(of: 0).isBlackHole = false
        stage.run(milliseconds: 5000)
        #expect(trier.resultCount == 1)
    }

    @Test("A holder learns that its lock was broken even if it finds the key gone before the notification arrives")
    func brokenBeforeTheNotification() throws {
        let stage = Stage(sidecars: 2)
        let lease = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        var losses: [LeaseLoss?] = []
        stage.sidecars[0].call { coordinator in
            _ = coordinator.followLease(lease, isLinked: false) { losses.append($0.loss) }
        }
        // The lock is broken just before the first check, and the notification is slower than the check's reply.
        stage.run(milliseconds: 12)
        let name = try ResourceName("orders")
        let broken = stage.startCall(1) { coordinator, completion in
            coordinator.breakLock(name, by: "ops", completion: completion)
            return nil
        }
        let key = "interlock:lock:{orders}"
        let near = stage.path(of: 0).delay
        stage.path(of: 0).delay = .milliseconds(15)...(.milliseconds(15))
        #expect(stage.run(upToMilliseconds: 10) { stage.cli("EXISTS", key) == ":0" })
        stage.path(of: 0).delay = near
        _ = stage.result(of: broken)
        stage.run(upToMilliseconds: 1000) { !losses.isEmpty }
        #expect(losses == [.broken])
    }

    @Test(
        "A coordinator dropped without being stopped, with work in progress, affects nothing else",
        arguments: (0..<20).map { Int64($0) * 60 }, [true, false])
    func droppedCoordinatorAffectsNothingElse(after milliseconds: Int64, isRedisUnreachable: Bool) throws {
        let limits = [LimitDefinition(name: "1s", limit: 1, window: .seconds(1))]
        let stage = Stage(sidecars: 2, services: [ServiceDefinition(name: "api", limits: limits)])
        let lease = try #require(stage.result(of: stage.acquire(try Self.request("orders")))?.lease)
        stage.sidecars[0].call { coordinator in
            _ = coordinator.followLease(lease, isLinked: true) { _ in }
        }
        _ = stage.acquire(try Self.request("orders", wait: 30_000))
        _ = stage.take("api")
        _ = stage.take("api", waitMilliseconds: 10_000)
        stage.run(milliseconds: 9_900)
        if isRedisUnreachable { stage.redis.stop() }
        _ = stage.permit("api", waitMilliseconds: 5_000)
        _ = stage.acquire(try Self.request("others", wait: 5_000))
        stage.run(milliseconds: milliseconds)
        stage.sidecars[0].abandon()
        stage.run(milliseconds: 60_000)
        if isRedisUnreachable { stage.redis.resume() }
        stage.run(milliseconds: 60_000)
        #expect(stage.result(of: stage.acquire(try Self.request("orders", wait: 5_000), through: 1))?.lease != nil)
    }
}

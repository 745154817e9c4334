import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import Interlock

@Suite("Locks on a majority of three real Redis servers", .timeLimit(.minutes(2)))
struct QuorumTests {
    @Test("A lock has one holder across sidecars, and is stored on every server until its release")
    func lockHasOneHolderAcrossSidecars() async throws {
        try await Quorum.run(of: 2) { quorum in
            let name = try ResourceName("orders")
            let lease = try #require(try await quorum.sidecars[0].acquireLock(try LockRequest("orders", label: "web-1")))
            #expect(lease.token.hasPrefix("web-1/"))
            #expect(lease.validMilliseconds <= 30_000 - LeaseValidity.driftMilliseconds(ofTTL: 30_000))
            for sidecar in quorum.sidecars {
                #expect(try await sidecar.acquireLock(try LockRequest("orders")) == nil)
            }
            try await eventually("every server holds the lock") { try await quorum.holders(of: "orders") == [0, 1, 2] }
            let information = try await quorum.sidecars[1].inspectLock(name)
            #expect(information?.label == "web-1")
            #expect(information?.fence == lease.fence)
            #expect(information?.ttlMilliseconds ?? 0 > 10_000)
            #expect(try await quorum.sidecars[1].releaseLock(name, token: lease.token))
            try await eventually("no server holds the lock") { try await quorum.holders(of: "orders").isEmpty }
            #expect(try await quorum.sidecars[1].inspectLock(name) == nil)
            let nextLease = try #require(try await quorum.sidecars[1].acquireLock(try LockRequest("orders")))
            #expect(nextLease.fence > lease.fence)
        }
    }

    @Test("A lease is renewed or released only with its token, and is lost when a majority no longer has it")
    func onlyTokenRenewsOrReleasesLease() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            let name = try ResourceName("orders")
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 10_000)))
            #expect(try await sidecar.renewLock(name, token: "somebody", ttlMilliseconds: 10_000) == nil)
            #expect(try await sidecar.releaseLock(name, token: "somebody") == false)
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) ?? 0 > 30_000)
            try await eventually("every server holds the lock") { try await quorum.holders(of: "orders") == [0, 1, 2] }
            try await quorum.cli(1, "DEL", "interlock:lock:{orders}")
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) != nil)
            try await eventually("the lock is restored") { try await quorum.holders(of: "orders") == [0, 1, 2] }
            try await quorum.cli(1, "DEL", "interlock:lock:{orders}")
            try await quorum.cli(2, "DEL", "interlock:lock:{orders}")
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) == nil)
            #expect(try await sidecar.releaseLock(name, token: lease.token) == false)
        }
    }

    @Test("With one server down, locks are granted, held, renewed and released as before")
    func oneDown() async throws {
        try await Quorum.run(of: 2) { quorum in
            let name = try ResourceName("orders")
            await quorum.servers[1].kill()
            let lease = try #require(try await quorum.sidecars[0].acquireLock(try LockRequest("orders")))
            #expect(try await quorum.sidecars[1].acquireLock(try LockRequest("orders")) == nil)
            #expect(try await quorum.sidecars[1].renewLock(name, token: lease.token, ttlMilliseconds: 30_000) != nil)
            #expect(try await quorum.sidecars[1].releaseLock(name, token: lease.token))
        }
    }

    @Test("Redis is busy when a majority has 64 attempts pending, and not when only one server has", arguments: [1, 2])
    func busyMajorityMakesRedisBusy(paused: Int) async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            for server in quorum.servers.prefix(paused) { await server.pause() }
            let isOne = paused == 1
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<64 {
                    group.addTask {
                        // Without a majority, the acquire fails as unavailable after a while.
                        let lease = try? await sidecar.acquireLock(try LockRequest("orders-\(number)"))
                        #expect((lease != nil) == isOne)
                    }
                }
                if isOne {
                    try await group.waitForAll()
                    #expect(await !sidecar.isRedisBusy)
                } else {
                    try await eventually("Redis is busy") { await sidecar.isRedisBusy }
                    try await group.waitForAll()
                }
            }
            for server in quorum.servers.prefix(paused) { await server.resume() }
            try await eventually("Redis is no longer busy") { await !sidecar.isRedisBusy }
        }
    }

    @Test("With two servers down a lock is unavailable, never held", arguments: [true, false])
    func twoDown(isPaused: Bool) async throws {
        try await Quorum.run { quorum in
            for server in quorum.servers.prefix(2) {
                if isPaused { await server.pause() } else { await server.kill() }
            }
            let clock = ContinuousClock()
            let requested = clock.now
            let error = await #expect(throws: InterlockError.self) {
                try await quorum.sidecars[0].acquireLock(try LockRequest("orders"))
            }
            #expect(error?.code == .unavailable)
            // The limit is the timeout of one request plus a margin for a noisy machine.
            #expect(clock.now - requested < .seconds(10))
            for server in quorum.servers.prefix(2) where isPaused { await server.resume() }
            try await eventually("the third server's grant is free") {
                try await quorum.holders(of: "orders", among: [2]).isEmpty
            }
        }
    }

    @Test("A waiter is notified that a majority is down once that has lasted longer than the timeout")
    func waiterInAnOutage() async throws {
        try await Quorum.run { quorum in
            for server in quorum.servers.prefix(2) { await server.kill() }
            let error = await #expect(throws: InterlockError.self) {
                try await quorum.sidecars[0].acquireLock(try LockRequest("orders", wait: 50_000))
            }
            #expect(error?.code == .unavailable)
            #expect(await quorum.sidecars[0].status.lockWaiterCount == 0)
        }
    }

    @Test("A lock that only a minority granted counts as held, and the minority frees it immediately")
    func lockThatOnlyMinorityGrantedCountsAsHeld() async throws {
        try await Quorum.run { quorum in
            for server in [0, 1] {
                try await quorum.cli(server, "SET", "interlock:lock:{orders}", "0123456789abcdef", "PX", "60000")
            }
            #expect(try await quorum.sidecars[0].acquireLock(try LockRequest("orders")) == nil)
            try await eventually("the third server has granted the lock") {
                try await quorum.cli(2, "EXISTS", "interlock:fence:{orders}").integer == 1
            }
            try await eventually("the third server has freed the lock") {
                try await quorum.holders(of: "orders", among: [2]).isEmpty
            }
        }
    }

    @Test("A lock granted by a server that did not answer in time is freed once the server is back")
    func freedLater() async throws {
        try await Quorum.run { quorum in
            try await quorum.cli(0, "SET", "interlock:lock:{orders}", "0123456789abcdef", "PX", "60000")
            await quorum.servers[1].pause()
            await quorum.servers[2].pause()
            await #expect(throws: InterlockError.self) {
                try await quorum.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000))
            }
            await quorum.servers[1].resume()
            await quorum.servers[2].resume()
            try await eventually("the undelivered lock is free") {
                for server in [1, 2] {
                    guard try await quorum.cli(server, "EXISTS", "interlock:fence:{orders}").integer == 1 else { return false }
                }
                return try await quorum.holders(of: "orders", among: [1, 2]).isEmpty
            }
        }
    }

    @Test("Fences rise from majority to majority even if one server's clock is far ahead")
    func fencesAcrossMajorities() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            // The counter simulates a first server whose clock is years ahead.
            try await quorum.cli(0, "SET", "interlock:fence:{orders}", "4000000000000000")
            var last: Int64 = 3_999_999_999_999_999
            for absent in [2, 0, 1, 0] {
                await quorum.servers[absent].pause()
                let lease = try await quorum.eventuallyAcquire(try LockRequest("orders", ttl: 10_000), through: sidecar)
                #expect(lease.fence > last)
                last = lease.fence
                #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token))
                await quorum.servers[absent].resume()
                try await quorum.waitUntilEveryServerIsReached(by: sidecar)
            }
        }
    }

    @Test("A waiter gets the lock after a release, through its own sidecar or another", arguments: [0, 1])
    func waiterGetsLockAfterRelease(releaser: Int) async throws {
        try await Quorum.run(of: 2) { quorum in
            let lease = try #require(try await quorum.sidecars[0].acquireLock(try LockRequest("orders")))
            async let next = quorum.sidecars[0].acquireLock(try LockRequest("orders", wait: 20_000))
            try await eventually("a caller waits") { await quorum.sidecars[0].status.lockWaiterCount == 1 }
            #expect(try await quorum.sidecars[releaser].releaseLock(try ResourceName("orders"), token: lease.token))
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
        }
    }

    @Test("A wait that times out is answered as held and leaves nothing behind")
    func waitTimesOut() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await sidecar.acquireLock(try LockRequest("orders", wait: 200)) == nil)
            #expect(await sidecar.status.lockWaiterCount == 0)
            for server in 0..<3 {
                #expect(try await quorum.cli(server, "GET", "interlock:lock:{orders}").text == lease.token)
            }
        }
    }

    @Test("The same owner gets the same lease and fence again, renewed, even through another sidecar")
    func idempotentOwner() async throws {
        try await Quorum.run(of: 2) { quorum in
            let request = try LockRequest("orders", ttl: 10_000, owner: "job-7")
            let first = try #require(try await quorum.sidecars[0].acquireLock(request))
            let repeatedLease = try #require(try await quorum.sidecars[1].acquireLock(try LockRequest("orders", owner: "job-7")))
            #expect(repeatedLease.token == "job-7")
            #expect(repeatedLease.fence == first.fence)
            for server in 0..<3 {
                try await eventually("server \(server) has extended the lease") {
                    try await quorum.cli(server, "PTTL", "interlock:lock:{orders}").integer ?? 0 > 20_000
                }
            }
            await quorum.servers[0].kill()
            let third = try await quorum.eventuallyAcquire(request, through: quorum.sidecars[0])
            #expect(third.fence == first.fence)
        }
    }

    @Test("A repeated acquire replaces the higher number that one server minted for the owner")
    func repeatedAcquireReplacesMintedNumber() async throws {
        try await Quorum.run { quorum in
            let request = try LockRequest("orders", ttl: 60_000, owner: "job-7")
            let lease = try #require(try await quorum.sidecars[0].acquireLock(request))
            try await eventually("the third server has recorded the fence") {
                try await quorum.cli(2, "GET", "interlock:fence:{orders}").integer == lease.fence
            }
            // Recorded fences are odd, minted numbers even.
            try await quorum.cli(2, "SET", "interlock:fence:{orders}", "\(lease.fence + 5)")
            #expect(try await quorum.sidecars[0].acquireLock(request)?.fence == lease.fence)
            try await eventually("the third server has recorded the fence again") {
                try await quorum.cli(2, "GET", "interlock:fence:{orders}").integer == lease.fence
            }
        }
    }

    @Test("An owner's failed retry does not end its lease")
    func failedRetry() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            let request = try LockRequest("orders", ttl: 60_000, owner: "job-7")
            _ = try #require(try await sidecar.acquireLock(request))
            try await quorum.cli(0, "DEL", "interlock:lock:{orders}")
            await quorum.servers[1].kill()
            await quorum.servers[2].pause()
            await #expect(throws: InterlockError.self) { try await sidecar.acquireLock(request) }
            await quorum.servers[2].resume()
            // The key that the retry acquired is released; the one that the lease relies on is kept.
            try await eventually("the first server has freed the lock") {
                try await quorum.holders(of: "orders", among: [0]).isEmpty
            }
            #expect(try await quorum.holders(of: "orders", among: [2]) == [2])
        }
    }

    @Test("A break frees a lease for good and notifies the fleet")
    func breakFreesLeaseForGoodAndNotifiesFleet() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            let name = try ResourceName("orders")
            var events = sidecar.events.locks.makeAsyncIterator()
            #expect(try await sidecar.breakLock(name, by: "ops") == false)
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await sidecar.breakLock(name, by: "ops", fence: lease.fence - 1) == false)
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 30_000) != nil)
            #expect(try await sidecar.breakLock(name, by: "ops", fence: lease.fence))
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 1000) == nil)
            #expect(try await sidecar.acquireLock(try LockRequest("orders")) != nil)
            let event = await events.next()
            #expect(event?.payload == LockEvent(kind: .broken, lock: "orders", brokenBy: "ops"))
        }
    }

    @Test("The list iterates over the locks of one server")
    func listIteratesOverLocksOfOneServer() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            for number in 0..<50 {
                _ = try await sidecar.acquireLock(try LockRequest("job-\(number)", owner: "owner-\(number)"))
            }
            var names: Set<String> = []
            var cursor = "0"
            repeat {
                let page = try await sidecar.listLocks(cursor: cursor, matching: "job-*", count: 10)
                names.formUnion(page.names)
                cursor = page.cursor
            } while cursor != "0"
            #expect(names == Set((0..<50).map { "job-\($0)" }))
        }
    }

    @Test("Forty callers through two sidecars never hold the lock together, fences rise, and no one waits forever")
    func fortyCallersNeverShareLock() async throws {
        try await Quorum.run(of: 2) { quorum in
            let name = try ResourceName("orders")
            let holders = HolderCount()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<40 {
                    let sidecar = quorum.sidecars[caller % 2]
                    group.addTask {
                        let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 60_000)))
                        holders.enter(fence: lease.fence)
                        await Task.yield()
                        holders.leave()
                        #expect(try await sidecar.releaseLock(name, token: lease.token))
                    }
                }
                try await group.waitForAll()
            }
            #expect(holders.maximum == 1)
            #expect(holders.fencesRose)
        }
    }

    @Test(
        "A late record of a fence does not lower the number of a later grant",
        arguments: [(2, 7), (6, 3)] as [(Int64, Int64)])
    func lateRecordOfFence(numberFound: Int64, expected: Int64) async throws {
        try await Fleet.run { fleet in
            let base: Int64 = 1_700_000_000_000_000
            let script = LockScripts(LockSettings(), isOnCluster: false).quorumFence
            // The owner's second grant minted the number 6. Fence 3 is of the first grant, or of the same one.
            try await fleet.cli("SET", "lock", "owner", "PX", "60000")
            try await fleet.cli("SET", "fence", "\(base + 6)")
            let reply = try await fleet.cli(
                "EVAL", String(decoding: script.source, as: UTF8.self), "2", "lock", "fence", "owner", "\(base + 3)", "60000",
                "\(base + numberFound)")
            #expect(reply.integer == base + expected)
            #expect(try await fleet.cli("GET", "fence").integer == base + expected)
        }
    }
}

extension Coordinator {
    /// Whether Redis is busy, as reported to the listeners on the coordinator's event loop.
    fileprivate var isRedisBusy: Bool { loopBound().isRedisBusy }
}

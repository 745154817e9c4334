import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// Tests that followed leases are renewed and that their holders are notified of losses.
@Suite("Followed leases", .timeLimit(.minutes(2)))
struct FollowedLeaseTests {
    // MARK: Renewal

    @Test("Renewal continues while the lease is followed, and no other caller gets the lock")
    func outlivesItsTTL() async throws {
        try await Fleet.run(of: 2) { fleet in
            let start = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600), through: fleet.sidecars[0])
            try await eventually("three ttls have passed") {
                for sidecar in fleet.sidecars {
                    let other = try await sidecar.acquireLock(try LockRequest("orders"))
                    #expect(other == nil)
                }
                return ContinuousClock.now - start >= .milliseconds(3 * 600)
            }
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
            let isReleased = try await fleet.sidecars[1].releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
        }
    }

    @Test("Renewal keeps a shared lease and a semaphore's slot as well", arguments: [LockMode.shared, .permits(2)])
    func groupLeaseOutlivesItsTTL(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var request = try LockRequest("orders", ttl: 600)
            request.mode = mode
            let start = ContinuousClock.now
            let (kept, followed) = try await Self.follow(request, through: sidecar)
            let brief = try #require(try await sidecar.acquireLock(request))
            try await Self.waitUntilElapsed(.milliseconds(3 * 600), since: start)
            let information = try await sidecar.inspectLock(name)
            #expect(information?.holders == 1)
            let lapsed = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!lapsed)
            let isReleased = try await sidecar.releaseLock(name, token: kept.token)
            #expect(isReleased)
            // The lease is no longer renewed once `followed` is dropped.
            withExtendedLifetime(followed) {}
        }
    }

    @Test("Renewal survives lost connections")
    func lostConnections() async throws {
        try await Fleet.run { fleet in
            let start = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 1000), through: fleet.sidecars[0])
            for round in 1...6 {
                try await fleet.cli("CLIENT", "KILL", "TYPE", round % 2 == 0 ? "pubsub" : "normal", "SKIPME", "yes")
                try await Self.waitUntilElapsed(.milliseconds(500 * round), since: start)
                let token = try await fleet.cli("GET", Self.key).text
                #expect(token == lease.token)
            }
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("Renewal survives a restart of Redis")
    func renewalSurvivesRestartOfRedis() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let start = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 5000), through: sidecar)
            try await fleet.server.restart(keepingData: true)
            try await eventually("Redis is back") { await sidecar.status.isRedisUp }
            try await Self.waitUntilElapsed(.milliseconds(7000), since: start)
            let information = try await sidecar.inspectLock(try ResourceName("orders"))
            #expect(information?.fence == lease.fence)
            #expect(information?.holders == 1)
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("Renewal ends with the release, so the lock is free immediately and no late renewal reacquires it")
    func endsWithRelease() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let (holder, other) = (fleet.sidecars[0], fleet.sidecars[1])
            for _ in 0..<30 {
                // The lease is renewed every 30 ms, so a renewal is nearly always in progress or due.
                let (lease, _) = try await Self.follow(try LockRequest("orders", ttl: 90), through: holder)
                try await Self.waitUntilElapsed(.milliseconds(35), since: ContinuousClock.now)
                _ = try await holder.releaseLock(name, token: lease.token)
                let releaseTime = ContinuousClock.now
                let nextLease = try #require(try await other.acquireLock(try LockRequest("orders", ttl: 600_000)))
                try await Self.waitUntilElapsed(.milliseconds(60), since: releaseTime)
                let token = try await fleet.cli("GET", Self.key).text
                #expect(token == nextLease.token)
                let renewal = try await holder.renewLock(name, token: lease.token, ttlMilliseconds: 90)
                #expect(renewal == nil)
                _ = try await other.releaseLock(name, token: nextLease.token)
            }
        }
    }

    @Test("Renewal ends when the lease is unfollowed, and the lease lapses")
    func endsUnfollowed() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (_, followed) = try await Self.follow(try LockRequest("orders", ttl: 500), through: sidecar)
            await sidecar.unfollowLease(followed)
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test("Renewal ends at the maximum hold, and the holder is notified")
    func endsAtMaximumHold() async throws {
        try await Fleet.run(locks: LockSettings(maximumHold: .seconds(1))) { fleet in
            let start = ContinuousClock.now
            let (_, followed) = try await Self.follow(try LockRequest("orders", ttl: 300), through: fleet.sidecars[0])
            let loss = await Self.loss(of: followed)
            let holdDuration = ContinuousClock.now - start
            #expect(loss == .expired)
            #expect(holdDuration > .milliseconds(300) && holdDuration < .seconds(5))
            try await Self.waitUntilFree(in: fleet)
        }
    }

    // MARK: Notifications

    @Test("The holder is notified that an operator broke its lock, whether or not the lease is linked", arguments: [true, false])
    func holderIsNotifiedOfBrokenLock(isLinked: Bool) async throws {
        try await Fleet.run(of: 2) { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0], isLinked: isLinked)
            try await fleet.server.waitUntilTracking(1)
            let isBroken = try await fleet.sidecars[1].breakLock(try ResourceName("orders"), by: "ops")
            #expect(isBroken)
            let loss = await Self.loss(of: followed)
            #expect(loss == .broken)
        }
    }

    @Test("A lock that was broken before its lease was followed is reported as deleted", arguments: [true, false])
    func brokenTooEarly(isLinked: Bool) async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[0]
            let events = sidecar.events.locks.subscribe()
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000)))
            let isBroken = try await fleet.sidecars[1].breakLock(try ResourceName("orders"), by: "ops")
            #expect(isBroken)
            // The event arrives before the lease has a follower.
            _ = await events.first { $0.payload.kind == .broken }
            let followed = try await sidecar.followLease(lease, isLinked: isLinked)
            let loss = await Self.loss(of: followed)
            #expect(loss == .deleted)
        }
    }

    @Test("Each of several holders is notified that an operator broke their lock", arguments: [LockMode.shared, .permits(2)])
    func brokenGroup(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            var request = try LockRequest("orders", ttl: 600_000)
            request.mode = mode
            var holders: [FollowedLease] = []
            for sidecar in fleet.sidecars { holders.append(try await Self.follow(request, through: sidecar).followed) }
            try await fleet.server.waitUntilTracking(2)
            let isBroken = try await fleet.sidecars[0].breakLock(try ResourceName("orders"), by: "ops")
            #expect(isBroken)
            for holder in holders {
                let loss = await Self.loss(of: holder)
                #expect(loss == .broken)
            }
        }
    }

    @Test("The holder is notified that its lock was deleted by hand", arguments: [["DEL", key], ["FLUSHALL"]], [true, false])
    func holderIsNotifiedThatLockWasDeletedByHand(words: [String], isLinked: Bool) async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0], isLinked: isLinked)
            _ = try await fleet.redis.send(AnyCommand(words))
            let loss = await Self.loss(of: followed)
            #expect(loss == .deleted)
        }
    }

    @Test("The holder is notified even if the message about the change was lost")
    func lostMessage() async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0])
            try await fleet.cli("CLIENT", "KILL", "TYPE", "pubsub")
            try await fleet.cli("DEL", Self.key)
            let loss = await Self.loss(of: followed)
            #expect(loss == .deleted)
        }
    }

    @Test("The holder is notified that its lock has another token", arguments: [true, false])
    func holderIsNotifiedThatLockHasAnotherToken(isLinked: Bool) async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0], isLinked: isLinked)
            try await fleet.cli("SET", Self.key, "other", "PX", "5000")
            let loss = await Self.loss(of: followed)
            #expect(loss == .taken)
            // The other holder's lock is left untouched.
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == "other")
        }
    }

    @Test("The holder is notified at its own deadline when Redis is unreachable", arguments: [true, false])
    func redisUnreachable(isPaused: Bool) async throws {
        try await Fleet.run { fleet in
            let start = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 2000), through: fleet.sidecars[0])
            if isPaused { await fleet.server.pause() } else { await fleet.server.kill() }
            let loss = await Self.loss(of: followed)
            let elapsed = ContinuousClock.now - start
            if isPaused { await fleet.server.resume() }
            #expect(loss == .expired)
            #expect(elapsed >= .milliseconds(lease.validMilliseconds))
            #expect(elapsed < .seconds(10))
        }
    }

    @Test("The holder is notified when its unextended lease ends, and renewing the lease postpones that")
    func notLinked() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let (_, brief) = try await Self.follow(try LockRequest("other", ttl: 500), through: sidecar, isLinked: false)
            let (lease, long) = try await Self.follow(try LockRequest("orders", ttl: 500), through: sidecar, isLinked: false)
            let valid = try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 600_000)
            #expect(valid != nil)
            let loss = await Self.loss(of: brief)
            #expect(loss == .expired)
            try await Self.waitUntilElapsed(.milliseconds(600), since: ContinuousClock.now)
            let noLoss = await Self.lossSoFar(of: long)
            #expect(noLoss == nil)
        }
    }

    @Test("The holder is notified when its lease among several ends, although the others continue")
    func lapsedAmongSeveral() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            var long = try LockRequest("orders", ttl: 600_000)
            long.mode = .shared
            let others = try #require(try await sidecar.acquireLock(long))
            var brief = try LockRequest("orders", ttl: 300)
            brief.mode = .shared
            let (_, followed) = try await Self.follow(brief, through: sidecar, isLinked: false)
            let loss = await Self.loss(of: followed)
            #expect(loss == .expired)
            let valid = try await sidecar.renewLock(
                try ResourceName("orders"), token: others.token, ttlMilliseconds: 600_000)
            #expect(valid != nil)
        }
    }

    @Test("The holder is notified when its sidecar shuts down, and the lease stays valid for a while")
    func holderIsNotifiedOfShutdown() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, linked) = try await Self.follow(try LockRequest("orders", ttl: 60_000), through: sidecar)
            let (_, other) = try await Self.follow(try LockRequest("other", ttl: 60_000), through: sidecar, isLinked: false)
            await sidecar.drain()
            let loss = await Self.loss(of: linked)
            #expect(loss == .shutdown)
            // The unlinked lease is unaffected.
            let noLoss = await Self.lossSoFar(of: other)
            #expect(noLoss == nil)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == lease.token)
        }
    }

    @Test("The holder is not notified of its own release")
    func holderIsNotNotifiedOfItsOwnRelease() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: sidecar)
            let isReleased = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
            let loss = await Self.loss(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("The holder is not notified after it unfollowed its lease")
    func holderIsNotNotifiedAfterItUnfollowedLease() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, first) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: sidecar)
            let second = try await sidecar.followLease(lease, isLinked: true)
            await sidecar.unfollowLease(first)
            try await fleet.cli("DEL", Self.key)
            let loss = await Self.loss(of: second)
            #expect(loss == .deleted)
            let noLoss = await Self.lossSoFar(of: first)
            #expect(noLoss == nil)
        }
    }

    // MARK: One lease, two followers

    @Test("The holder is notified on every call of the same owner")
    func sameOwner() async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000, owner: "job-7")
            let (_, first) = try await Self.follow(request, through: fleet.sidecars[0])
            let (_, retry) = try await Self.follow(request, through: fleet.sidecars[0], isLinked: false)
            try await fleet.cli("DEL", Self.key)
            for followed in [first, retry] {
                let loss = await Self.loss(of: followed)
                #expect(loss == .deleted)
            }
        }
    }

    @Test("Renewal continues when one of two calls of the same owner ends, and the last one releases the lease")
    func oneOfTwoEnds() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let request = try LockRequest("orders", ttl: 600, owner: "job-7")
            let (_, first) = try await Self.follow(request, through: sidecar)
            let (_, retry) = try await Self.follow(request, through: sidecar)
            await sidecar.releaseFollowedLease(first.follower)
            try await Self.waitUntilElapsed(.milliseconds(3 * 600), since: ContinuousClock.now)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == "job-7")
            let loss = await Self.lossSoFar(of: retry)
            #expect(loss == nil)
            await sidecar.releaseFollowedLease(retry.follower)
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test("A lease whose holder has left is released, and the next waiter gets the lock")
    func holderLeaves() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: fleet.sidecars[0])
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 60_000))
            try await eventually("the waiter's ticket is in the queue") {
                try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == 1
            }
            await fleet.sidecars[0].releaseFollowedLease(followed.follower)
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
        }
    }
}

extension FollowedLeaseTests {
    static let key = "interlock:lock:{orders}"

    private static func follow(
        _ request: LockRequest, through sidecar: Coordinator, isLinked: Bool = true
    ) async throws -> (lease: Lease, followed: FollowedLease) {
        let lease = try #require(try await sidecar.acquireLock(request))
        return (lease, try await sidecar.followLease(lease, isLinked: isLinked))
    }

    /// Returns the loss reported to the holder; `nil` if the stream ends without one.
    private static func loss(of followed: FollowedLease) async -> LeaseLoss? {
        for await loss in followed.losses { return loss }
        return nil
    }

    /// Returns the loss reported so far, and ends the stream.
    private static func lossSoFar(of followed: FollowedLease) async -> LeaseLoss? {
        let reader = Task { await loss(of: followed) }
        // A cancelled stream still delivers its buffered elements.
        reader.cancel()
        return await reader.value
    }

    private static func waitUntilElapsed(_ duration: Duration, since start: ContinuousClock.Instant) async throws {
        try await eventually("\(duration) have passed") { ContinuousClock.now - start >= duration }
    }

    private static func waitUntilFree(in fleet: Fleet) async throws {
        try await eventually("the lock is free") { try await fleet.cli("EXISTS", key).integer == 0 }
    }
}

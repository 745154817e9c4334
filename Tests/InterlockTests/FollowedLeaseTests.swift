import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// Tests known problems of other lock services and libraries: numbers 1 and 2 of `FieldLockTests`.
@Suite("Leases that are looked after", .timeLimit(.minutes(2)))
struct FollowedLeaseTests {
    // MARK: 1. Renewal

    @Test("1. renewal goes on for as long as the lease is followed, and nobody else gets the lock meanwhile")
    func outlivesItsLength() async throws {
        try await Fleet.run(of: 2) { fleet in
            let began = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600), through: fleet.sidecars[0])
            try await eventually("three lengths have passed") {
                for sidecar in fleet.sidecars {
                    let other = try await sidecar.acquireLock(try LockRequest("orders"))
                    #expect(other == nil)
                }
                return ContinuousClock.now - began >= .milliseconds(3 * 600)
            }
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
            let isReleased = try await fleet.sidecars[1].releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
        }
    }

    @Test("1. renewal keeps a place among several, too", arguments: [LockMode.shared, .permits(2)])
    func placeOutlivesItsLength(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var request = try LockRequest("orders", ttl: 600)
            request.mode = mode
            let began = ContinuousClock.now
            let (kept, followed) = try await Self.follow(request, through: sidecar)
            let brief = try #require(try await sidecar.acquireLock(request))
            try await Self.untilPassed(.milliseconds(3 * 600), since: began)
            let information = try await sidecar.inspectLock(name)
            #expect(information?.holders == 1)
            let lapsed = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!lapsed)
            let isReleased = try await sidecar.releaseLock(name, token: kept.token)
            #expect(isReleased)
            // The lease is no longer extended once `followed` is dropped.
            withExtendedLifetime(followed) {}
        }
    }

    @Test("1. renewal survives lost connections")
    func lostConnections() async throws {
        try await Fleet.run { fleet in
            let began = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 1000), through: fleet.sidecars[0])
            for round in 1...6 {
                try await fleet.cli("CLIENT", "KILL", "TYPE", round % 2 == 0 ? "pubsub" : "normal", "SKIPME", "yes")
                try await Self.untilPassed(.milliseconds(500 * round), since: began)
                let token = try await fleet.cli("GET", Self.key).text
                #expect(token == lease.token)
            }
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("1. renewal survives a restart of Redis")
    func restart() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let began = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 5000), through: sidecar)
            try await fleet.server.restart(keepingData: true)
            try await eventually("Redis is back") { await sidecar.status.isRedisUp }
            try await Self.untilPassed(.milliseconds(7000), since: began)
            let information = try await sidecar.inspectLock(try ResourceName("orders"))
            #expect(information?.fence == lease.fence)
            #expect(information?.holders == 1)
            let loss = await Self.lossSoFar(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("1. renewal ends with the release: the lock is free at once, and no late renewal takes it back")
    func endsWithRelease() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let (holder, other) = (fleet.sidecars[0], fleet.sidecars[1])
            for _ in 0..<30 {
                // The lease is extended every 30 ms, so an extension is nearly always in progress or due.
                let (lease, _) = try await Self.follow(try LockRequest("orders", ttl: 90), through: holder)
                try await Self.untilPassed(.milliseconds(35), since: ContinuousClock.now)
                _ = try await holder.releaseLock(name, token: lease.token)
                let released = ContinuousClock.now
                let next = try #require(try await other.acquireLock(try LockRequest("orders", ttl: 600_000)))
                try await Self.untilPassed(.milliseconds(60), since: released)
                let token = try await fleet.cli("GET", Self.key).text
                #expect(token == next.token)
                let renewal = try await holder.renewLock(name, token: lease.token, ttl: 90)
                #expect(renewal == nil)
                _ = try await other.releaseLock(name, token: next.token)
            }
        }
    }

    @Test("1. renewal ends when nobody follows the lease any more: it lapses")
    func endsUnfollowed() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (_, followed) = try await Self.follow(try LockRequest("orders", ttl: 500), through: sidecar)
            await sidecar.unfollowLease(followed)
            try await Self.untilFree(in: fleet)
        }
    }

    @Test("1. renewal ends at the longest hold, and the holder is told")
    func endsAtLongestHold() async throws {
        try await Fleet.run(locks: LockSettings(maximumHold: .seconds(1))) { fleet in
            let began = ContinuousClock.now
            let (_, followed) = try await Self.follow(try LockRequest("orders", ttl: 300), through: fleet.sidecars[0])
            let loss = await Self.loss(of: followed)
            let held = ContinuousClock.now - began
            #expect(loss == .expired)
            #expect(held > .milliseconds(300) && held < .seconds(5))
            try await Self.untilFree(in: fleet)
        }
    }

    // MARK: 2. Notifications

    @Test("2. the holder is told that an operator broke its lock, whether it is linked or not", arguments: [true, false])
    func broken(isLinked: Bool) async throws {
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

    @Test("2. a lock that was broken before its lease was followed is told as deleted", arguments: [true, false])
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

    @Test("2. the holder is told, each of several, that an operator broke their lock", arguments: [LockMode.shared, .permits(2)])
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

    @Test("2. the holder is told that its lock was deleted by hand", arguments: [["DEL", key], ["FLUSHALL"]], [true, false])
    func deleted(words: [String], isLinked: Bool) async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0], isLinked: isLinked)
            _ = try await fleet.redis.send(AnyCommand(words))
            let loss = await Self.loss(of: followed)
            #expect(loss == .deleted)
        }
    }

    @Test("2. the holder is told also when nobody heard of the change as it was made")
    func missedNews() async throws {
        try await Fleet.run { fleet in
            let request = try LockRequest("orders", ttl: 600_000)
            let (_, followed) = try await Self.follow(request, through: fleet.sidecars[0])
            try await fleet.cli("CLIENT", "KILL", "TYPE", "pubsub")
            try await fleet.cli("DEL", Self.key)
            let loss = await Self.loss(of: followed)
            #expect(loss == .deleted)
        }
    }

    @Test("2. the holder is told that somebody else's token is in its lock", arguments: [true, false])
    func taken(isLinked: Bool) async throws {
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

    @Test("2. the holder is told at its own deadline, when Redis is out of reach", arguments: [true, false])
    func outOfReach(isPaused: Bool) async throws {
        try await Fleet.run { fleet in
            let began = ContinuousClock.now
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 2000), through: fleet.sidecars[0])
            if isPaused { await fleet.server.pause() } else { await fleet.server.kill() }
            let loss = await Self.loss(of: followed)
            let told = ContinuousClock.now - began
            if isPaused { await fleet.server.resume() }
            #expect(loss == .expired)
            #expect(told >= .milliseconds(lease.validMilliseconds))
            #expect(told < .seconds(10))
        }
    }

    @Test("2. the holder is told when a lease that nobody extends is over; extending it by itself puts that off")
    func notLinked() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let (_, brief) = try await Self.follow(try LockRequest("other", ttl: 500), through: sidecar, isLinked: false)
            let (lease, long) = try await Self.follow(try LockRequest("orders", ttl: 500), through: sidecar, isLinked: false)
            let valid = try await sidecar.renewLock(name, token: lease.token, ttl: 600_000)
            #expect(valid != nil)
            let loss = await Self.loss(of: brief)
            #expect(loss == .expired)
            try await Self.untilPassed(.milliseconds(600), since: ContinuousClock.now)
            let nothing = await Self.lossSoFar(of: long)
            #expect(nothing == nil)
        }
    }

    @Test("2. the holder is told when its lease among several is over, although the others' goes on")
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
            let valid = try await sidecar.renewLock(try ResourceName("orders"), token: others.token, ttl: 600_000)
            #expect(valid != nil)
        }
    }

    @Test("2. the holder is told when its sidecar goes down and no longer extends the lease, which stays its own for a while")
    func shutdown() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, linked) = try await Self.follow(try LockRequest("orders", ttl: 60_000), through: sidecar)
            let (_, other) = try await Self.follow(try LockRequest("other", ttl: 60_000), through: sidecar, isLinked: false)
            await sidecar.drain()
            let loss = await Self.loss(of: linked)
            #expect(loss == .shutdown)
            // The unlinked lease is unaffected.
            let nothing = await Self.lossSoFar(of: other)
            #expect(nothing == nil)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == lease.token)
        }
    }

    @Test("2. the holder is told nothing of its own release")
    func released() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: sidecar)
            let isReleased = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
            let loss = await Self.loss(of: followed)
            #expect(loss == nil)
        }
    }

    @Test("2. the holder is told nothing any more once it does not follow its lease")
    func unfollowed() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let (lease, first) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: sidecar)
            let second = try await sidecar.followLease(lease, isLinked: true)
            await sidecar.unfollowLease(first)
            try await fleet.cli("DEL", Self.key)
            let loss = await Self.loss(of: second)
            #expect(loss == .deleted)
            let nothing = await Self.lossSoFar(of: first)
            #expect(nothing == nil)
        }
    }

    // MARK: One lease, two followers

    @Test("2. the holder is told on every call of the same owner")
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

    @Test("1. renewal goes on when one of two calls of the same owner has gone; the last one takes the lease along")
    func oneOfTwoGoes() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let request = try LockRequest("orders", ttl: 600, owner: "job-7")
            let (_, first) = try await Self.follow(request, through: sidecar)
            let (_, retry) = try await Self.follow(request, through: sidecar)
            await sidecar.releaseFollowedLease(first.follower)
            try await Self.untilPassed(.milliseconds(3 * 600), since: ContinuousClock.now)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == "job-7")
            let loss = await Self.lossSoFar(of: retry)
            #expect(loss == nil)
            await sidecar.releaseFollowedLease(retry.follower)
            try await Self.untilFree(in: fleet)
        }
    }

    @Test("the lease of a holder who has gone is released, and the next has it")
    func holderGone() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (lease, followed) = try await Self.follow(try LockRequest("orders", ttl: 600_000), through: fleet.sidecars[0])
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 60_000))
            try await eventually("its ticket stands") {
                try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == 1
            }
            await fleet.sidecars[0].releaseFollowedLease(followed.follower)
            let granted = try #require(try await next)
            #expect(granted.fence > lease.fence)
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

    private static func untilPassed(_ duration: Duration, since start: ContinuousClock.Instant) async throws {
        try await eventually("\(duration) have passed") { ContinuousClock.now - start >= duration }
    }

    private static func untilFree(in fleet: Fleet) async throws {
        try await eventually("the lock is free") { try await fleet.cli("EXISTS", key).integer == 0 }
    }
}

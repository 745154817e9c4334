import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// Tests that a follower is notified of every way in which a lease can end.
@Suite("The end of following a lease", .timeLimit(.minutes(2)))
struct FollowedLeaseEndTests {
    private static func follow(
        in fleet: Fleet, ttl: Duration = .seconds(600), renews: Bool
    ) async throws -> (lease: Lease, followed: FollowedLease) {
        let locks = fleet.sidecars[0].locks
        let lease = try #require(try await locks.acquire("orders", ttl: ttl))
        return (lease, try await locks.follow(lease, renews: renews))
    }

    /// Returns the first loss of a stream; `nil` if it ends without one; fails after ten seconds.
    private static func firstLoss(_ losses: AsyncStream<LeaseLoss>) async throws -> LeaseLoss? {
        let reader = Task { () -> LeaseLoss? in
            for await loss in losses { return loss }
            return nil
        }
        let watchdog = Task {
            try await Task.sleep(for: .seconds(10))
            #expect(Bool(false), "the stream did not end")
            reader.cancel()
        }
        defer { watchdog.cancel() }
        return await reader.value
    }

    @Test("Unfollowing ends the stream without a loss", arguments: [true, false])
    func unfollowingEndsStreamWithoutLoss(renews: Bool) async throws {
        try await Fleet.run { fleet in
            let (_, followed) = try await Self.follow(in: fleet, renews: renews)
            await fleet.sidecars[0].locks.unfollow(followed)
            #expect(try await Self.firstLoss(followed.losses) == nil)
        }
    }

    @Test(
        "After a renewal for a shorter ttl that Redis does not answer, the lease ends at the earlier time",
        arguments: [true, false])
    func unansweredRenewalShortensLease(renews: Bool) async throws {
        try await Fleet.run { fleet in
            let (lease, followed) = try await Self.follow(in: fleet, renews: renews)
            await fleet.server.pause()
            await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].locks.renew(lease, ttl: .milliseconds(300))
            }
            #expect(try await Self.firstLoss(followed.losses) == .expired)
            await fleet.server.resume()
        }
    }

    @Test("A coordinator that stops notifies every follower", arguments: [true, false])
    func coordinatorThatStopsNotifiesEveryFollower(renews: Bool) async throws {
        try await Fleet.run(of: 2) { fleet in
            let (_, followed) = try await Self.follow(in: fleet, renews: renews)
            await fleet.sidecars[0].stop()
            #expect(try await Self.firstLoss(followed.losses) == .shutdown)
        }
    }

    @Test("A stopped coordinator follows no lease")
    func alreadyStopped() async throws {
        try await Fleet.run(of: 2) { fleet in
            let locks = fleet.sidecars[0].locks
            let lease = try #require(try await locks.acquire("orders", ttl: .seconds(600)))
            await fleet.sidecars[0].stop()
            let error = await #expect(throws: InterlockError.self) { _ = try await locks.follow(lease, renews: false) }
            #expect(error?.code == .unavailable)
        }
    }

    @Test("A lease is not renewed once its follower has been dropped")
    func leaseIsNotRenewedOnceFollowerHasBeenDropped() async throws {
        try await Fleet.run { fleet in
            var followed: FollowedLease? = try await Self.follow(in: fleet, ttl: .milliseconds(600), renews: true).followed
            #expect(followed != nil)
            followed = nil
            try await eventually(within: .seconds(5), "the lease has lapsed") {
                try await fleet.sidecars[0].inspectLock(try ResourceName("orders")) == nil
            }
        }
    }

    @Test("A lease is not renewed once the task that read its losses has been cancelled")
    func cancelled() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            let reader = Task {
                guard let lease = try await locks.acquire("orders", ttl: .milliseconds(600)) else { return }
                let followed = try await locks.follow(lease, renews: true)
                for await _ in followed.losses {}
            }
            let name = try ResourceName("orders")
            try await eventually("the lock is held") { try await fleet.sidecars[0].inspectLock(name) != nil }
            var lowestTTL = Int64.max
            try await eventually("the lease has been renewed") {
                let ttl = try await fleet.cli("PTTL", "interlock:lock:{orders}").integer ?? 0
                lowestTTL = min(lowestTTL, ttl)
                return ttl > lowestTTL
            }
            #expect(try await fleet.sidecars[0].inspectLock(name) != nil)
            reader.cancel()
            try await eventually(within: .seconds(5), "the lease has lapsed") {
                try await fleet.sidecars[0].inspectLock(name) == nil
            }
        }
    }

    @Test("A cancelled task can release its lease")
    func releasedWhenCancelled() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            let (reading, begun) = AsyncStream.makeStream(of: Void.self)
            let reader = Task {
                guard let lease = try await locks.acquire("orders", ttl: .seconds(600)) else { return false }
                let followed = try await locks.follow(lease, renews: true)
                begun.finish()
                for await _ in followed.losses {}
                return try await locks.release(lease)
            }
            for await _ in reading {}
            reader.cancel()
            let isReleased = try await reader.value
            #expect(isReleased)
            #expect(try await fleet.sidecars[0].inspectLock(try ResourceName("orders")) == nil)
        }
    }

    @Test("Retaining only the stream keeps a lease renewed")
    func streamAlone() async throws {
        try await Fleet.run { fleet in
            let losses = try await Self.follow(in: fleet, ttl: .milliseconds(600), renews: true).followed.losses
            let start = ContinuousClock.now
            try await eventually("three ttls have passed") { ContinuousClock.now - start > .milliseconds(1800) }
            #expect(try await fleet.sidecars[0].inspectLock(try ResourceName("orders")) != nil)
            #expect(try await fleet.sidecars[0].breakLock(try ResourceName("orders"), by: "ops"))
            #expect(try await Self.firstLoss(losses) == .broken)
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// The sidecar that granted a lease reports its end and each renewal, whichever sidecar handles them.
@Suite("A sidecar's count and history of its leases", .timeLimit(.minutes(2)))
struct GrantFollowingTests {
    private static let name = "orders"

    private static func request(ttl: Int64 = 600_000, owner: String? = nil, mode: LockMode = .exclusive) throws -> LockRequest {
        var request = try LockRequest(name, ttl: ttl, owner: owner)
        request.mode = mode
        return request
    }

    @Test(
        "A lease that another sidecar releases is not counted, and its grant has ended",
        arguments: [LockMode.exclusive, .shared, .permits(2)])
    func releasedElsewhere(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName(Self.name)
            let lease = try #require(try await sidecar.acquireLock(try Self.request(mode: mode)))
            let other = mode == .exclusive ? nil : try await sidecar.acquireLock(try Self.request(mode: mode))
            let remaining = other == nil ? 0 : 1
            #expect(await sidecar.status.heldLockCount == remaining + 1)
            #expect(try await fleet.sidecars[1].releaseLock(name, token: lease.token))
            try await eventually(within: .seconds(5), "the lease is not counted") {
                await sidecar.status.heldLockCount == remaining
            }
            let grants = await sidecar.grants(of: name)
            #expect(grants.last?.end == .lost)
            if other != nil { #expect(grants.first?.end == nil) }
        }
    }

    @Test("A lock that another sidecar breaks is not counted, and its grant has ended")
    func brokenElsewhere() async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName(Self.name)
            _ = try #require(try await sidecar.acquireLock(try Self.request(owner: "job-7")))
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops"))
            try await eventually(within: .milliseconds(900), "the lease is not counted") {
                await sidecar.status.heldLockCount == 0
            }
            #expect(await sidecar.grants(of: name).first?.end == .lost)
        }
    }

    @Test("A lock that this sidecar breaks is not counted")
    func brokenHere() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try #require(try await sidecar.acquireLock(try Self.request()))
            #expect(try await sidecar.breakLock(try ResourceName(Self.name), by: "ops"))
            #expect(await sidecar.status.heldLockCount == 0)
        }
    }

    @Test("A lease that another sidecar extends is counted beyond its first ttl", arguments: [LockMode.exclusive, .shared])
    func extendedElsewhere(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName(Self.name)
            let start = ContinuousClock.now
            let lease = try #require(try await sidecar.acquireLock(try Self.request(ttl: 1500, mode: mode)))
            #expect(try await fleet.sidecars[1].renewLock(name, token: lease.token, ttlMilliseconds: 600_000) != nil)
            try await eventually("the lease's first ttl is over") { ContinuousClock.now - start > .milliseconds(3200) }
            #expect(await sidecar.status.heldLockCount == 1)
            #expect(await sidecar.grants(of: name).first?.end == nil)
            #expect(try await fleet.sidecars[1].releaseLock(name, token: lease.token))
            try await eventually(within: .seconds(10), "the lease is not counted") {
                await sidecar.status.heldLockCount == 0
            }
        }
    }

    @Test("A linked lease is counted while it is extended, and its release is recorded as a release")
    func linkedLeaseIsCountedWhileExtended() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName(Self.name)
            let start = ContinuousClock.now
            var request = try Self.request(ttl: 600, owner: "job-7")
            request.label = "nightly"
            let lease = try #require(try await sidecar.acquireLock(request))
            let followed = try await sidecar.followLease(lease, isLinked: true)
            try await eventually("three ttls have passed") { ContinuousClock.now - start > .milliseconds(1800) }
            #expect(await sidecar.status.heldLockCount == 1)
            #expect(await sidecar.grants(of: name).first?.end == nil)
            #expect(try await sidecar.inspectLock(name)?.label == "nightly")
            #expect(try await sidecar.releaseLock(name, token: lease.token))
            #expect(await sidecar.grants(of: name).first?.end == .released)
            #expect(await sidecar.status.heldLockCount == 0)
            await sidecar.unfollowLease(followed)
        }
    }

    @Test("A quorum's lease that another sidecar releases is not counted")
    func quorumLeaseThatAnotherSidecarReleasesIsNotCounted() async throws {
        try await Quorum.run(of: 2) { quorum in
            let sidecar = quorum.sidecars[0]
            let before = await sidecar.status.heldLockCount
            let lease = try #require(try await sidecar.acquireLock(try LockRequest(Self.name, ttl: 600_000)))
            #expect(try await quorum.sidecars[1].releaseLock(try ResourceName(Self.name), token: lease.token))
            try await eventually(within: .seconds(5), "the lease is not counted") {
                await sidecar.status.heldLockCount <= before
            }
            #expect(await sidecar.grants(of: try ResourceName(Self.name)).first?.end == .lost)
        }
    }

    @Test("An owner without a label is shown with the sidecar's host")
    func unlabeledOwnerIsShownWithHost() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try #require(try await sidecar.acquireLock(try Self.request(owner: "job-7")))
            #expect(try await sidecar.inspectLock(try ResourceName(Self.name))?.label == "test")
            #expect(await sidecar.grants(of: nil).first?.label == "test")
        }
    }

    @Test("The history shows the number of slots that the semaphore has, not the number that was requested")
    func semaphoreSize() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try #require(try await sidecar.acquireLock(try Self.request(mode: .permits(3))))
            _ = try #require(try await sidecar.acquireLock(try Self.request(mode: .permits(1))))
            #expect(await sidecar.grants(of: nil).map(\.mode) == [.permits(3), .permits(3)])
        }
    }

    @Test("A linked lease of an owner does not extend the next lease of that owner")
    func laterLease() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (sidecar, other) = (fleet.sidecars[0], fleet.sidecars[1])
            let name = try ResourceName(Self.name)
            let first = try #require(try await sidecar.acquireLock(try Self.request(ttl: 900, owner: "job-7")))
            let followed = try await sidecar.followLease(first, isLinked: true)
            // Another sidecar releases and reacquires the lock before this one learns of either.
            #expect(try await other.releaseLock(name, token: "job-7"))
            let second = try #require(try await other.acquireLock(try Self.request(ttl: 1200, owner: "job-7")))
            #expect(second.fence > first.fence)
            var losses = followed.losses.makeAsyncIterator()
            #expect(await losses.next() != nil)
            try await eventually(within: .seconds(5), "the next lease lapses in its own time") {
                try await other.inspectLock(name) == nil
            }
        }
    }
}

import Interlock
import InterlockCore
import RedisClient
import Testing

@Suite("The leases of a lock with several holders", .timeLimit(.minutes(2)))
struct GroupLeaseTests {
    // MARK: Owners and tokens

    @Test(
        "An owner holds the lock only once, with the same fence, even through another sidecar",
        arguments: [LockMode.shared, .permits(2)])
    func sameOwner(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let first = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(mode, owner: "job-7")))
            // Other holders in between do not change the result.
            let other = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(mode)))
            #expect(other.fence > first.fence)
            let repeatedLease = try #require(
                try await fleet.sidecars[1].acquireLock(try GroupLockTests.request(mode, ttl: 60_000, owner: "job-7")))
            #expect(repeatedLease.token == "job-7")
            #expect(repeatedLease.fence == first.fence)
            let information = try await fleet.sidecars[0].inspectLock(name)
            #expect(information?.holders == 2)
            #expect(information?.ttlMilliseconds ?? 0 > 30_000)
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: "job-7")
            #expect(isReleased)
            let isReleasedAgain = try await fleet.sidecars[0].releaseLock(name, token: "job-7")
            #expect(!isReleasedAgain)
        }
    }

    @Test("A lease is renewed or released only with its token", arguments: [LockMode.shared, .permits(2)])
    func onlyTokenRenewsOrReleasesLease(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try GroupLockTests.request(mode)))
            let otherRenewal = try await sidecar.renewLock(name, token: "somebody", ttlMilliseconds: 60_000)
            #expect(otherRenewal == nil)
            let otherRelease = try await sidecar.releaseLock(name, token: "somebody")
            #expect(!otherRelease)
            let valid = try #require(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000))
            #expect(valid > 50_000)
            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
            #expect(isReleased)
            let isReleasedAgain = try await sidecar.releaseLock(name, token: lease.token)
            #expect(!isReleasedAgain)
            let lateRenewal = try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000)
            #expect(lateRenewal == nil)
        }
    }

    @Test("The group's name, which is the lock's value, is not a valid token", arguments: [LockMode.shared, .permits(2)])
    func groupName(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try GroupLockTests.request(mode, ttl: 30_000)))
            let group = try #require(try await fleet.cli("GET", GroupLockTests.lockKey).text)
            #expect(group != lease.token)

            // The refusal may say that the lease is lost or that the token is invalid.
            let renewal = try? await sidecar.renewLock(name, token: group, ttlMilliseconds: 600_000)
            #expect(renewal == nil)
            let isReleased = (try? await sidecar.releaseLock(name, token: group)) ?? false
            #expect(!isReleased)
            for mode in [mode, .exclusive] {
                let code = await GroupLockTests.code {
                    _ = try await sidecar.acquireLock(try GroupLockTests.request(mode, owner: group))
                }
                #expect(code == .invalid)
            }

            let remaining = try #require(try await fleet.cli("PTTL", GroupLockTests.lockKey).integer)
            #expect((1...30_000).contains(remaining))
            let isStillHeld = try await sidecar.releaseLock(name, token: lease.token)
            #expect(isStillHeld)
        }
    }

    // MARK: Inspecting and breaking

    @Test("A break ends the leases of all holders, and a writer gets the lock", arguments: [LockMode.shared, .permits(3)])
    func breakEndsEveryLease(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var leases: [Lease] = []
            for index in 0..<3 {
                leases.append(try #require(try await fleet.sidecars[index % 2].acquireLock(try GroupLockTests.request(mode))))
            }
            let isBroken = try await fleet.sidecars[1].breakLock(name, by: "ops")
            #expect(isBroken)
            for lease in leases {
                let renewal = try await fleet.sidecars[0].renewLock(name, token: lease.token, ttlMilliseconds: 30_000)
                #expect(renewal == nil)
            }
            let nextLease = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(.exclusive)))
            #expect(leases.allSatisfy { $0.fence < nextLease.fence })
        }
    }

    @Test(
        "A break that names a fence ends all leases while one of them has that fence", arguments: [LockMode.shared, .permits(3)])
    func brokenUnderAFence(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let releasedLease = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(mode)))
            let lease = try #require(try await fleet.sidecars[1].acquireLock(try GroupLockTests.request(mode)))
            _ = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(mode)))
            _ = try await fleet.sidecars[0].releaseLock(name, token: releasedLease.token)
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: releasedLease.fence) == false)
            #expect(try await fleet.sidecars[0].inspectLock(name)?.holders == 2)
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: lease.fence))
            #expect(try await fleet.sidecars[0].inspectLock(name) == nil)
        }
    }

    @Test(
        "An inspection shows the mode and the number of holders, but no tokens",
        arguments: [(LockMode.shared, "shared"), (.permits(3), "permits-3")])
    func inspectionShowsModeAndHolderCount(mode: LockMode, label: String) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[1]
            _ = try #require(try await fleet.sidecars[0].acquireLock(try GroupLockTests.request(mode, ttl: 20_000)))
            let last = try #require(try await sidecar.acquireLock(try GroupLockTests.request(mode, ttl: 60_000)))
            let information = try await sidecar.inspectLock(name)
            #expect(information?.label == label)
            #expect(information?.holders == 2)
            #expect(information?.fence == last.fence)
            // The remaining time is that of the longest lease.
            #expect(information?.ttlMilliseconds ?? 0 > 30_000)
        }
    }

    @Test(
        "In Redis the lock is a string with a ttl next to its holders, and only the fence remains after the last release",
        arguments: [(LockMode.shared, "shared"), (.permits(3), "permits-3")])
    func keys(mode: LockMode, label: String) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var leases: [Lease] = []
            for _ in 0..<2 { leases.append(try #require(try await sidecar.acquireLock(try GroupLockTests.request(mode)))) }

            let type = try await fleet.cli("TYPE", GroupLockTests.lockKey).text
            #expect(type == "string")
            let group = try #require(try await fleet.cli("GET", GroupLockTests.lockKey).text)
            #expect(OwnerToken.label(of: group) == label)
            let holdersType = try await fleet.cli("TYPE", GroupLockTests.holdersKey).text
            #expect(holdersType == "zset")
            let members = try await fleet.cli("ZRANGE", GroupLockTests.holdersKey, "0", "-1").array?.compactMap(\.text) ?? []
            #expect(Set(members) == Set(leases.map(\.token) + [group]))
            for key in [GroupLockTests.lockKey, GroupLockTests.holdersKey] {
                let ttl = try #require(try await fleet.cli("PTTL", key).integer)
                #expect((1...30_000).contains(ttl), "\(key)")
            }

            for lease in leases { _ = try await sidecar.releaseLock(name, token: lease.token) }
            let remaining = try await fleet.cli("KEYS", "interlock:*{orders}*").array?.compactMap(\.text)
            #expect(remaining == ["interlock:fence:{orders}"])
        }
    }
}

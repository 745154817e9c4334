import InterlockCore
import InterlockProcesses
import Testing

@testable import Interlock

@Suite("The last grants of a sidecar")
struct GrantHistoryTests {
    private static func grants(_ sidecar: Coordinator, of name: String? = nil) async throws -> [GrantRecord] {
        await sidecar.grants(of: try name.map { try ResourceName($0) })
    }

    @Test("Each grant is listed with its holder, its wait and its end, the newest first")
    func eachGrantIsListedWithItsHolder() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (sidecar, other) = (fleet.sidecars[0], fleet.sidecars[1])
            let releasedLease = try #require(try await sidecar.acquireLock(try LockRequest("orders", label: "web-1")))
            let waiting = Task {
                try await sidecar.acquireLock(try LockRequest("orders", wait: 60_000, owner: "job-7", label: "job"))
            }
            try await eventually("the caller waits") { await sidecar.status.lockWaiterCount == 1 }
            #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: releasedLease.token))
            let broken = try #require(try await waiting.value)
            #expect(try await other.breakLock(try ResourceName("orders"), by: "admin"))
            #expect(
                try await sidecar.renewLock(try ResourceName("orders"), token: broken.token, ttlMilliseconds: 30_000)
                    == nil)
            let brief = try #require(try await sidecar.acquireLock(try LockRequest("brief", ttl: 100)))
            try await eventually("the brief lease has lapsed") {
                try await Self.grants(sidecar, of: "brief").first?.end == .lapsed
            }
            let heldLease = try #require(try await sidecar.acquireLock(try LockRequest("held")))
            let grants = try await Self.grants(sidecar)
            #expect(grants.map(\.fence) == [heldLease, brief, broken, releasedLease].map(\.fence))
            #expect(grants.map(\.end) == [nil, .lapsed, .lost, .released])
            #expect(grants.map(\.label) == ["test", "test", "job", "web-1"])
            #expect(grants[1].endedMilliseconds.map { $0 - grants[1].grantedMilliseconds } ?? 0 <= 100)
            #expect(grants[2].waitedMilliseconds <= grants[2].grantedMilliseconds - grants[3].grantedMilliseconds + 1)
            #expect(try await Self.grants(sidecar, of: "orders").map(\.fence) == [broken.fence, releasedLease.fence])
            #expect(try await Self.grants(other).isEmpty)
        }
    }

    @Test("An owner that acquires again has the same grant, however long it is extended")
    func sameGrant() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 200, owner: "job-7")))
            let repeatedLease = try await sidecar.acquireLock(
                try LockRequest("orders", ttl: 60_000, owner: "job-7", label: "late"))
            #expect(repeatedLease?.fence == first.fence)
            #expect(
                try await sidecar.renewLock(try ResourceName("orders"), token: "job-7", ttlMilliseconds: 90_000) != nil)
            let grants = try await Self.grants(sidecar)
            #expect(grants.map(\.fence) == [first.fence])
            #expect(grants.first?.end == nil)
        }
    }

    @Test("A lease that ended elsewhere is not listed as active next to the next one, and a late release counts as lapsed")
    func endedElsewhere() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (sidecar, other) = (fleet.sidecars[0], fleet.sidecars[1])
            let name = try ResourceName("orders")
            let first = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await sidecar.breakLock(name, by: "admin"))
            #expect(try await Self.grants(sidecar).map(\.end) == [.lost])
            let second = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await other.releaseLock(name, token: second.token))
            let third = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 100)))
            try await eventually("the lease has expired in Redis") { try await sidecar.inspectLock(name) == nil }
            #expect(try await !sidecar.releaseLock(name, token: third.token))
            let grants = try await Self.grants(sidecar)
            #expect(grants.map(\.fence) == [third, second, first].map(\.fence))
            #expect(grants.map(\.end) == [.lapsed, .lost, .lost])
            #expect(try #require(grants[0].endedMilliseconds) - grants[0].grantedMilliseconds <= 100)
        }
    }

    @Test("The last hundred of many grants are remembered")
    func lastHundredOfManyGrantsAreRemembered() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            var fences: [Int64] = []
            for index in 0..<250 {
                let lease = try #require(try await sidecar.acquireLock(try LockRequest("lock-\(index % 7)")))
                fences.append(lease.fence)
                #expect(try await sidecar.releaseLock(try ResourceName(lease.name), token: lease.token))
            }
            let grants = try await Self.grants(sidecar)
            #expect(grants.map(\.fence) == fences.suffix(GrantHistory.capacity).reversed())
            #expect(grants.allSatisfy { $0.end == .released })
        }
    }

    @Test("A quorum's grants are listed too")
    func quorumGrantsAreListedToo() async throws {
        try await Quorum.run { quorum in
            let sidecar = quorum.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token))
            let grants = try await Self.grants(sidecar, of: "orders")
            #expect(grants.map(\.fence) == [lease.fence])
            #expect(grants.first?.end == .released)
        }
    }
}

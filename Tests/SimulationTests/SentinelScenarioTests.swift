import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// The effects of Sentinel failovers on locks. Each test is the shortest story that shows one effect.
@Suite("Locks behind Sentinels", .timeLimit(.minutes(2)))
struct SentinelScenarioTests {
    /// A stage and its Sentinels.
    private static func stage(
        replicas: Int = 1, waitReplicas: Int = 0
    ) throws -> (stage: Stage, group: SentinelGroup) {
        let stage = Stage(
            sidecars: 2, topology: .sentinels(replicas: replicas), locks: LockSettings(waitReplicas: waitReplicas))
        return (stage, try #require(stage.sentinels))
    }

    private static func request(_ ttl: Int64 = 60_000) throws -> LockRequest { try LockFaultTests.request("orders", ttl: ttl) }

    /// Crashes the primary, and waits until the Sentinels agree on another one and sidecars use it.
    private static func failOver(_ stage: Stage, _ group: SentinelGroup) {
        let former = group.primaryNumber
        group.hosts[former].crash()
        #expect(stage.run(upToMilliseconds: 5000) { group.primaryNumber != former && group.isStable })
        stage.run(milliseconds: 1000)
    }

    @Test("A lock that was granted but not replicated is lost in a failover, and the later holder's fence is higher")
    func documentedLoss() throws {
        let (stage, group) = try Self.stage()
        group.backbone.set(0, 1, isCut: true)
        let stale = try #require(stage.result(of: stage.acquire(try Self.request()))?.lease)
        Self.failOver(stage, group)
        let lease = try #require(stage.result(of: stage.acquire(try Self.request(), through: 1))?.lease)
        #expect(lease.fence > stale.fence)
    }

    @Test("A lock that a replica has acknowledged is not lost, and is not granted without a replica")
    func acknowledgedLockIsNotLost() throws {
        let (stage, group) = try Self.stage(waitReplicas: 1)
        let lease = stage.result(of: stage.acquire(try Self.request()))?.lease
        #expect(lease != nil)
        let other = try LockFaultTests.request("invoices")
        group.backbone.set(0, 1, isCut: true)
        guard case .failed(let error)? = stage.result(of: stage.acquire(other)) else {
            return #expect(Bool(false), "granted")
        }
        #expect(error.code == .unreplicated)
        group.backbone.set(0, 1, isCut: false)
        stage.run(milliseconds: 2000)
        Self.failOver(stage, group)
        #expect(stage.result(of: stage.acquire(try Self.request(), through: 1))?.isHeld == true)
    }

    @Test(
        "Of two replicas the one that has not acknowledged may be promoted, so all candidates must be waited for",
        arguments: [1, 2])
    func otherReplicaPromoted(waitReplicas: Int) throws {
        let (stage, group) = try Self.stage(replicas: 2, waitReplicas: waitReplicas)
        // The second replica receives nothing.
        group.backbone.set(0, 2, isCut: true)
        let answer = stage.result(of: stage.acquire(try Self.request()))
        guard waitReplicas == 1 else {
            guard case .failed(let error)? = answer else { return #expect(Bool(false), "\(String(describing: answer))") }
            return #expect(error.code == .unreplicated)
        }
        let stale = try #require(answer?.lease)
        // No Sentinel reaches the first replica.
        group.backbone.isolate(1)
        Self.failOver(stage, group)
        #expect(group.primaryNumber == 2)
        // The first replica follows the new primary and now has its locks.
        group.backbone.restoreAll()
        #expect(stage.run(upToMilliseconds: 6000) { group.replication.replicasUpToDate(with: 2) == [1] })
        let lease = try #require(stage.result(of: stage.acquire(try Self.request(), through: 1))?.lease)
        #expect(lease.fence > stale.fence)
    }

    @Test("A sidecar does not follow a Sentinel that names the former primary, although that server accepts writes")
    func olderEpoch() throws {
        let (stage, group) = try Self.stage()
        // The former primary and one Sentinel are on the far side of a partition. Sidecars reach both sides.
        group.backbone.isolate(0)
        group.backbone.isolate(group.machine(2))
        #expect(
            stage.run(upToMilliseconds: 5000) {
                (0..<2).allSatisfy { group.announcedPrimary(by: $0) === group.hosts[1] }
            })
        stage.run(milliseconds: 1000)
        _ = try #require(stage.result(of: stage.acquire(try Self.request()))?.lease)
        #expect(group.announcedPrimary(by: 2) === group.hosts[0])
        #expect(stage.cli("ROLE", on: group.hosts[0]).contains("master"))
        for _ in 0..<60 {
            stage.run(milliseconds: 200)
            #expect(stage.result(of: stage.acquire(try Self.request(), through: 1))?.isHeld == true)
        }
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}", on: group.hosts[0]) == ":0")
    }

    /// Leaves the first sidecar with only the third Sentinel, which still names the former primary. That server is now
    /// a replica and receives nothing more from the new primary.
    private static func keepNamingTheFormerPrimary(_ stage: Stage, _ group: SentinelGroup) {
        let sentinels = (0..<3).map { group.machine($0) }
        for sentinel in sentinels.prefix(2) { stage.path(of: 0, to: group.hosts[sentinel]).isBlackHole = true }
        group.backbone.isolate(sentinels[2])
        group.backbone.isolate(0)
        #expect(
            stage.run(upToMilliseconds: 5000) {
                (0..<2).allSatisfy { group.announcedPrimary(by: $0) === group.hosts[1] }
            })
        for machine in [1] + sentinels.prefix(2) { group.backbone.set(0, machine, isCut: false) }
        #expect(stage.run(upToMilliseconds: 6000) { group.replication.replicasUpToDate(with: 1) == [0] })
        group.backbone.set(0, 1, isCut: true)
        stage.run(milliseconds: 1000)
        #expect(stage.cli("ROLE", on: group.hosts[0]).contains("slave"))
        #expect(group.announcedPrimary(by: 2) === group.hosts[0])
    }

    @Test("A writable replica grants nothing, although a Sentinel still names it as the primary")
    func writableReplica() throws {
        let (stage, group) = try Self.stage()
        for host in group.hosts { host.server.isReplicaReadOnly = false }
        Self.keepNamingTheFormerPrimary(stage, group)
        _ = try #require(stage.result(of: stage.acquire(try Self.request(), through: 1))?.lease)
        let answer = stage.result(of: stage.acquire(try Self.request()))
        guard case .failed? = answer else { return #expect(Bool(false), "\(String(describing: answer))") }
    }

    @Test("A lagging replica reports no lease as lost, although a Sentinel still names it as the primary")
    func laggingReplica() throws {
        let (stage, group) = try Self.stage()
        let lease = try #require(stage.result(of: stage.acquire(try Self.request(20_000)))?.lease)
        Self.keepNamingTheFormerPrimary(stage, group)
        // The holder extends its lease through the second sidecar.
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000, through: 1)) else {
            return #expect(Bool(false), "not renewed")
        }
        stage.run(milliseconds: 20_000)
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}", on: group.hosts[0]) == ":0")
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}", on: group.hosts[1]) == ":1")
        let answer = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000))
        guard case .failed? = answer else { return #expect(Bool(false), "\(String(describing: answer))") }
        // The sidecar serves again once it learns of the new primary.
        for sentinel in 0..<2 { stage.path(of: 0, to: group.hosts[group.machine(sentinel)]).isBlackHole = false }
        stage.run(milliseconds: 6000)
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000)) else {
            return #expect(Bool(false), "not renewed")
        }
    }
}

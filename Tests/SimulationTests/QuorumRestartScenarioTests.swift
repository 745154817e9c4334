import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Stories about quorum servers that restart empty one after another.
@Suite("Quorum locks: servers that restart empty", .timeLimit(.minutes(2)))
struct QuorumRestartScenarioTests {
    private static let key = "interlock:lock:{orders}"

    private static func restartEmpty(_ server: Int, on stage: Stage, unreachableMilliseconds: Int64 = 300) {
        stage.quorum[server].crash()
        stage.run(milliseconds: unreachableMilliseconds)
        stage.quorum[server].start(with: .none)
        // Wait until the sidecars have reconnected.
        stage.run(milliseconds: 800)
    }

    private static func isRenewed(_ lease: Lease, ttl: Int64 = 30_000, through sidecar: Int = 0, on stage: Stage)
        -> Bool
    {
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: ttl, through: sidecar)) else {
            return false
        }
        return true
    }

    private static func isOn(_ server: Int, _ lease: Lease, on stage: Stage) -> Bool {
        stage.cli("GET", key, on: stage.quorum[server]).hasSuffix(lease.token)
    }

    @Test(
        "Ten rolling restarts of three servers lose no lease that is renewed between them, and it has no second holder",
        arguments: [0, 1, 3])
    func rollingRestarts(waiters: Int) throws {
        let stage = Stage(sidecars: 3, quorum: 3, seed: UInt64(waiters + 1))
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.lease)
        // The waiters retry constantly, and each time hold the lock on the empty server for a moment.
        let waiting = try (0..<waiters).map {
            stage.acquire(try LockFaultTests.request("orders", wait: 60_000), through: $0 % 3)
        }
        for round in 0..<10 {
            Self.restartEmpty(round % 3, on: stage)
            for renewal in 0..<3 {
                #expect(Self.isRenewed(lease, through: renewal % 2, on: stage), "restart \(round), renewal \(renewal)")
                stage.run(milliseconds: 300)
            }
            #expect(Self.isOn(round % 3, lease, on: stage), "restart \(round)")
            #expect(waiting.allSatisfy { $0.result == nil }, "restart \(round)")
            #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 2))?.isHeld == true)
        }
        guard case .released? = stage.result(of: stage.release(lease)) else { return #expect(Bool(false), "it was lost") }
        let next =
            if let waiter = waiting.first { waiter } else { stage.acquire(try LockFaultTests.request("orders"), through: 1) }
        #expect(try #require(stage.result(of: next)?.lease).fence > lease.fence)
    }

    @Test("A restored lease keeps its fence above all later ones, although the servers' clocks are far behind it")
    func fenceIsRestored() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        for server in stage.quorum { stage.cli("SET", "interlock:fence:{orders}", "4000000000000000", on: server) }
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.lease)
        #expect(lease.fence > 4_000_000_000_000_000)
        for server in 0..<3 {
            Self.restartEmpty(server, on: stage)
            for _ in 0..<2 {
                #expect(Self.isRenewed(lease, on: stage), "restart of server \(server)")
                stage.run(milliseconds: 100)
            }
        }
        _ = stage.result(of: stage.release(lease))
        let next = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        #expect(next.fence > lease.fence)
    }

    @Test("An owner that acquires again after servers were restored has the same lease and fence")
    func ownerAfterRestores() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let request = try LockFaultTests.request("orders", owner: "job-7")
        let lease = try #require(stage.result(of: stage.acquire(request))?.lease)
        for server in 0..<3 {
            Self.restartEmpty(server, on: stage)
            for _ in 0..<2 {
                #expect(Self.isRenewed(lease, through: 1, on: stage), "restart of server \(server)")
                stage.run(milliseconds: 100)
            }
        }
        #expect(try #require(stage.result(of: stage.acquire(request, through: 1))?.lease).fence == lease.fence)
    }

    @Test("A server that granted late, with a higher number, counts once the lease is renewed with its fence")
    func lateGrant() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        stage.path(of: 0, toQuorum: 2).delay = .milliseconds(40)...(.milliseconds(40))
        let request = try LockFaultTests.request("orders", owner: "job-7")
        let lease = try #require(stage.result(of: stage.acquire(request))?.lease)
        stage.run(milliseconds: 1000)
        #expect(Self.isOn(2, lease, on: stage))
        Self.restartEmpty(0, on: stage)
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000, fence: lease.fence)) else {
            return #expect(Bool(false), "two of three servers have it")
        }
        stage.run(milliseconds: 1000)
        let numbers = stage.quorum.map { stage.cli("GET", "interlock:fence:{orders}", on: $0) }
        #expect(numbers.allSatisfy { $0.hasSuffix("\(lease.fence)") }, "\(numbers)")
    }

    @Test("Without a majority a renewal restores nothing: the lease is lost, and the servers stay free")
    func noMajority() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.lease)
        Self.restartEmpty(0, on: stage)
        Self.restartEmpty(1, on: stage)
        // The server that has the lease answers first.
        for server in 0..<2 { stage.path(of: 0, toQuorum: server).delay = .milliseconds(20)...(.milliseconds(20)) }
        guard case .lost? = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000)) else {
            return #expect(Bool(false), "one of three servers renewed it")
        }
        stage.run(milliseconds: 3000)
        #expect((0..<2).allSatisfy { !Self.isOn($0, lease, on: stage) })
    }

    @Test("Two restarts without a renewal between them may grant a lock twice, as documented")
    func closerThanARenewal() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let first = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.lease)
        Self.restartEmpty(0, on: stage)
        Self.restartEmpty(1, on: stage)
        let second = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        #expect(second.fence > first.fence)
        // The first holder does not know about its loss yet, so only the fence stops it.
        guard case .lost? = stage.result(of: stage.renew(first, ttlMilliseconds: 30_000)) else {
            return #expect(Bool(false), "both holders renewed")
        }
        #expect(Self.isRenewed(second, through: 1, on: stage))
    }

    /// Prepares a delayed restore: the first server is empty, and a renewal through the first sidecar is about to
    /// restore the lease there, with a delay of 300 ms each way.
    private static func lateRestore(ttl: Int64 = 60_000) throws -> (Stage, Lease) {
        let stage = Stage(sidecars: 2, quorum: 3)
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: ttl)))?.lease)
        restartEmpty(0, on: stage)
        stage.path(of: 0, toQuorum: 0).delay = .milliseconds(300)...(.milliseconds(300))
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: ttl)) else { throw Missing() }
        // The first server has answered; the restore is on its way.
        stage.run(milliseconds: 650)
        return (stage, lease)
    }

    private struct Missing: Error {}

    @Test("A restore overtaken by a release is undone")
    func overtakenByARelease() throws {
        let (stage, lease) = try Self.lateRestore()
        guard case .released? = stage.result(of: stage.release(lease, through: 1)) else {
            return #expect(Bool(false), "it was lost")
        }
        #expect(!Self.isOn(0, lease, on: stage))
        // The delayed restore arrives.
        stage.run(milliseconds: 300)
        let next = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        #expect(next.fence > lease.fence)
        stage.run(milliseconds: 4000)
        #expect(!Self.isOn(0, lease, on: stage))
        #expect(Self.isRenewed(next, through: 1, on: stage))
        stage.run(milliseconds: 300)
        #expect((0..<3).allSatisfy { Self.isOn($0, next, on: stage) })
        guard case .lost? = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000)) else {
            return #expect(Bool(false), "the released lease was renewed")
        }
    }

    @Test("A restore overtaken by a release and the next grant does not change anything")
    func overtakenByAGrant() throws {
        let (stage, lease) = try Self.lateRestore()
        _ = stage.result(of: stage.release(lease, through: 1))
        let next = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        stage.run(milliseconds: 1000)
        #expect((0..<3).allSatisfy { Self.isOn($0, next, on: stage) })
    }

    @Test("A restore overtaken by the next grant and its release finds a later fence and restores nothing")
    func overtakenByAGrantAndItsRelease() throws {
        let (stage, lease) = try Self.lateRestore()
        _ = stage.result(of: stage.release(lease, through: 1))
        let next = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        stage.run(milliseconds: 20)
        _ = stage.result(of: stage.release(next, through: 1))
        stage.run(milliseconds: 300)
        #expect(stage.cli("EXISTS", Self.key, on: stage.quorum[0]) == ":0")
    }

    @Test("A broken lease is not restored")
    func brokenLeaseIsNotRestored() throws {
        let (stage, lease) = try Self.lateRestore()
        let answer: Stage.Call<ReleaseResult> = stage.startCall(1) { coordinator, completion in
            guard let name = try? ResourceName("orders") else { return nil }
            coordinator.breakLock(name, by: "ops", completion: completion)
            return nil
        }
        guard case .released? = stage.result(of: answer) else { return #expect(Bool(false), "it was not broken") }
        stage.run(milliseconds: 4000)
        #expect((0..<3).allSatisfy { !Self.isOn($0, lease, on: stage) })
        guard case .lost? = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000)) else {
            return #expect(Bool(false), "a broken lease was renewed")
        }
    }

    @Test("A late restore is ignored, and a restored key expires when the others do")
    func restoredEnd() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 20_000)))?.lease)
        Self.restartEmpty(0, on: stage)
        // The server caches the scripts again.
        let other = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("invoices")))?.lease)
        #expect(Self.isRenewed(other, on: stage))
        // The answer and the restore together take longer than a restore may take.
        stage.path(of: 0, toQuorum: 0).delay = .milliseconds(10)...(.milliseconds(10))
        let renewal = stage.renew(lease, ttlMilliseconds: 20_000)
        stage.run(milliseconds: 5)
        stage.path(of: 0, toQuorum: 0).delay = .milliseconds(400)...(.milliseconds(400))
        guard case .renewed? = stage.result(of: renewal) else { return #expect(Bool(false), "two of three did not renew it") }
        stage.run(milliseconds: 4000)
        #expect(!Self.isOn(0, lease, on: stage))
        stage.path(of: 0, toQuorum: 0).delay = .milliseconds(50)...(.milliseconds(50))
        // Wait until the sidecar has reconnected.
        stage.run(milliseconds: 4000)
        #expect(Self.isRenewed(lease, ttl: 20_000, on: stage))
        // The server no longer has the scripts.
        stage.run(milliseconds: 3000)
        let ends = stage.quorum.map { stage.cli("PTTL", Self.key, on: $0).dropFirst() }.compactMap { Int64($0) }
        #expect(ends.count == 3)
        #expect((ends.max() ?? 0) - (ends.min() ?? 0) <= 300, "\(ends)")
    }
}

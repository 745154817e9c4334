import Interlock
import InterlockCore
import Testing

@testable import Simulation

/// Stories about duplicate calls that arrive late, when their owner has a new lease.
@Suite("Locks: late copies of calls", .timeLimit(.minutes(2)))
struct LateRetryTests {
    private static let key = "interlock:lock:{orders}"

    private static func isLost(_ answer: ReleaseResult?) -> Bool {
        if case .lost? = answer { true } else { false }
    }

    private static func isLost(_ answer: RenewResult?) -> Bool {
        if case .lost? = answer { true } else { false }
    }

    @Test(
        "A copy of a release or renewal affects no later lease of the owner",
        arguments: [LockMode.exclusive, .shared, .permits(2)])
    func laterLease(mode: LockMode) throws {
        let stage = Stage(sidecars: 2)
        let request = try LockFaultTests.request("orders", ttl: 20_000, owner: "me", mode: mode)
        let first = try #require(stage.result(of: stage.acquire(request))?.lease)
        guard case .released? = stage.result(of: stage.release(first, fence: first.fence)) else { return #expect(Bool(false)) }
        let second = try #require(stage.result(of: stage.acquire(request, through: 1))?.lease)
        #expect(second.fence > first.fence && second.token == first.token)
        for sidecar in [0, 1] {
            #expect(
                Self.isLost(
                    stage.result(of: stage.renew(first, ttlMilliseconds: 600_000, fence: first.fence, through: sidecar))
                ))
            #expect(Self.isLost(stage.result(of: stage.release(first, fence: first.fence, through: sidecar))))
        }
        #expect(stage.cli("EXISTS", Self.key) == ":1")
        #expect(try #require(Int(stage.cli("PTTL", Self.key).dropFirst())) <= 20_000)
        guard case .released? = stage.result(of: stage.release(second, fence: second.fence)) else { return #expect(Bool(false)) }
        #expect(stage.cli("EXISTS", Self.key) == ":0")
    }

    @Test("A copy of a release that wakes this sidecar's waiter does not end the owner's later lease")
    func withAWaiter() throws {
        let stage = Stage()
        let request = try LockFaultTests.request("orders", ttl: 20_000, owner: "me")
        let first = try #require(stage.result(of: stage.acquire(request))?.lease)
        _ = stage.result(of: stage.release(first, fence: first.fence))
        let second = try #require(stage.result(of: stage.acquire(request))?.lease)
        let waiter = stage.acquire(try LockFaultTests.request("orders", wait: 5000))
        stage.run(milliseconds: 100)
        #expect(Self.isLost(stage.result(of: stage.release(first, fence: first.fence))))
        stage.run(milliseconds: 500)
        #expect(waiter.result == nil)
        guard case .released? = stage.result(of: stage.release(second, fence: second.fence)) else { return #expect(Bool(false)) }
        #expect(try #require(stage.result(of: waiter)?.lease).fence > second.fence)
    }

    @Test("On a quorum a copy of a release or renewal affects no later lease of the owner")
    func quorum() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let request = try LockFaultTests.request("orders", ttl: 20_000, owner: "me")
        let first = try #require(stage.result(of: stage.acquire(request))?.lease)
        guard case .renewed? = stage.result(of: stage.renew(first, ttlMilliseconds: 20_000, fence: first.fence)) else {
            return #expect(Bool(false))
        }
        guard case .released? = stage.result(of: stage.release(first, fence: first.fence)) else { return #expect(Bool(false)) }
        let second = try #require(stage.result(of: stage.acquire(request, through: 1))?.lease)
        #expect(second.fence > first.fence)
        for sidecar in [0, 1] {
            #expect(
                Self.isLost(
                    stage.result(of: stage.renew(first, ttlMilliseconds: 600_000, fence: first.fence, through: sidecar))
                ))
            #expect(Self.isLost(stage.result(of: stage.release(first, fence: first.fence, through: sidecar))))
        }
        guard case .renewed? = stage.result(of: stage.renew(second, ttlMilliseconds: 20_000, fence: second.fence))
        else {
            return #expect(Bool(false))
        }
        guard case .released? = stage.result(of: stage.release(second, fence: second.fence)) else { return #expect(Bool(false)) }
    }

    @Test("A lease whose fence counter has lapsed is renewed and released under its fence")
    func lapsedCounter() throws {
        let stage = Stage()
        let lease = try #require(
            stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 20_000, owner: "me")))?.lease)
        stage.cli("DEL", "interlock:fence:{orders}")
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 20_000, fence: lease.fence)) else {
            return #expect(Bool(false))
        }
        guard case .released? = stage.result(of: stage.release(lease, fence: lease.fence)) else { return #expect(Bool(false)) }
    }
}

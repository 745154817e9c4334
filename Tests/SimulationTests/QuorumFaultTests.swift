import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Regression tests for faults of locks on a quorum of Redis servers. Each test is the shortest story that shows one.
@Suite("Quorum locks: regressions", .timeLimit(.minutes(2)))
struct QuorumFaultTests {
    @Test("Cleaning up after one attempt of a waiter does not end a later grant")
    func clearedAwayLater() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        let first = try #require(
            stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 3000), through: 1))?.lease)
        // C receives a request and does not answer in time. Its connection stays open.
        stage.quorum[2].stop()
        let waiter = stage.acquire(try LockFaultTests.request("orders", wait: 30_000))
        stage.run(milliseconds: 700)
        stage.quorum[2].resume()
        // B crashes with its data intact. The waiter gets the lock on A and C.
        stage.quorum[1].crash()
        _ = stage.release(first, through: 1)
        let lease = try #require(stage.result(of: waiter)?.lease)
        // The connection to C breaks, B returns, and another client tries to acquire the lock.
        stage.path(of: 0, toQuorum: 2).cutAll()
        stage.run(milliseconds: 1500)
        stage.quorum[1].start(with: .all)
        stage.run(milliseconds: 1500)
        let other = stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))
        #expect(other?.isHeld == true)
        stage.run(milliseconds: 100)
        var renewal: RenewResult?
        renewal = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000))
        guard case .renewed? = renewal else { return #expect(Bool(false), "lost: \(String(describing: renewal))") }
    }

    @Test("A delayed cleanup does not end a later grant")
    func clearedAwayWithTheNextConnection() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        // The holder's lease is on A and B, and the waiter's attempt reaches C first.
        stage.quorum[2].crash()
        let first = try #require(
            stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 60_000), through: 1))?.lease)
        stage.quorum[2].start(with: .none)
        stage.run(milliseconds: 1500)
        Self.putNear(2, to: 0, on: stage)
        let waiter = stage.acquire(try LockFaultTests.request("orders", wait: 30_000))
        stage.run(milliseconds: 1)
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}", on: stage.quorum[2]) == ":1")
        // C temporarily refuses the cleanup.
        stage.quorum[2].server.condition = .misconfigured
        stage.run(milliseconds: 20)
        stage.quorum[2].server.condition = .serving
        // B is down, so A and C are needed.
        stage.quorum[1].crash()
        _ = stage.release(first, through: 1)
        stage.run(milliseconds: 1500)
        stage.path(of: 0, toQuorum: 2).cutAll()
        let lease = try #require(stage.result(of: waiter)?.lease)
        stage.run(milliseconds: 1500)
        stage.quorum[1].start(with: .none)
        stage.run(milliseconds: 1500)
        #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.isHeld == true)
        var renewal: RenewResult?
        renewal = stage.result(of: stage.renew(lease, ttlMilliseconds: 30_000))
        guard case .renewed? = renewal else { return #expect(Bool(false), "lost: \(String(describing: renewal))") }
    }

    /// Makes `server` the first to answer `sidecar`.
    private static func putNear(_ server: Int, to sidecar: Int, on stage: Stage) {
        for other in 0..<3 {
            let delay: Int64 = .microseconds(other == server ? 50 : 3000)
            stage.path(of: sidecar, toQuorum: other).delay = delay...delay
        }
    }

    @Test("One of several concurrent calls without a wait gets a free lock", arguments: [false, true])
    func splitVote(isOneUnreachable: Bool) throws {
        var rounds = 0
        var unavailable = 0
        for round in 0..<40 {
            let stage = Stage(sidecars: isOneUnreachable ? 2 : 3, quorum: 3, seed: UInt64(round + 1))
            // Each sidecar is closest to a different server.
            for sidecar in stage.sidecars.indices { Self.putNear(sidecar, to: sidecar, on: stage) }
            if isOneUnreachable {
                stage.quorum[2].crash()
                stage.run(milliseconds: 1000)
            }
            let answers = try stage.sidecars.indices.map { stage.acquire(try LockFaultTests.request("orders"), through: $0) }
            stage.run(milliseconds: 3000)
            let granted = answers.count(where: { $0.result?.lease != nil })
            #expect(granted <= 1)
            if granted == 1 { rounds += 1 }
            unavailable += answers.count { if case .failed? = $0.result { true } else { false } }
            #expect(answers.allSatisfy { $0.result != nil })
        }
        #expect(rounds >= 38, "\(rounds) of 40")
        #expect(unavailable == 0)
    }

    @Test("A waiter with an OWNER that is not granted the lock does not hold it")
    func refusedWaiter() throws {
        let stage = Stage(sidecars: 2, quorum: 3, redisMilliseconds: 5)
        for round in 0..<60 {
            let name = "orders-\(round)"
            let holder = try #require(stage.result(of: stage.acquire(try LockFaultTests.request(name), through: 1))?.lease)
            let waiter = stage.acquire(try LockFaultTests.request(name, wait: 400, owner: "me"))
            stage.run(milliseconds: 340 + Int64(round))
            _ = stage.release(holder, through: 1)
            let answer = try #require(stage.result(of: waiter))
            stage.run(milliseconds: 500)
            let holders = stage.quorum.count { stage.cli("GET", "interlock:lock:{\(name)}", on: $0).contains("me") }
            if answer.isHeld { #expect(holders < 2, "round \(round)") } else { #expect(holders == 3) }
        }
    }

    @Test("A refused call leaves nothing behind on servers where the lock was free")
    func refusedByQuorum() throws {
        let stage = Stage(sidecars: 2, quorum: 3)
        // The holder's lease is on A and B.
        stage.quorum[2].crash()
        #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease != nil)
        stage.quorum[2].start(with: .none)
        stage.run(milliseconds: 1500)
        Self.putNear(2, to: 0, on: stage)
        #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.isHeld == true)
        stage.run(milliseconds: 100)
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}", on: stage.quorum[2]) == ":0")
    }

    @Test("A call that tries before it waits is answered once when its sidecar drains")
    func triersAreAnswered() throws {
        let stage = Stage(sidecars: 1, quorum: 3, redisMilliseconds: 20)
        _ = stage.acquire(try LockFaultTests.request("orders", wait: 5000))
        let waiter = stage.acquire(try LockFaultTests.request("orders", wait: 5000))
        let trier = stage.acquire(try LockFaultTests.request("orders", wait: 5000, owner: "me"))
        stage.run(milliseconds: 5)
        stage.sidecars[0].drain()
        stage.run(milliseconds: 500)
        #expect(waiter.result != nil)
        guard case .failed(let error)? = trier.result else { return #expect(trier.result != nil) }
        #expect(error.code == .unavailable)
        #expect(trier.resultCount == 1)
    }

    @Test("A repeated call gets the first copy's lease, with or without a wait", arguments: [0, 5000] as [Int64])
    func repeatedCall(wait: Int64) throws {
        let stage = Stage(quorum: 3)
        let holder = stage.acquire(try LockFaultTests.request("orders"))
        let held = wait > 0 ? stage.result(of: holder)?.lease : nil
        if wait == 0 { stage.run(milliseconds: 10) }
        let calls = try (0..<2).map { _ in
            stage.acquire(try LockFaultTests.request(wait > 0 ? "orders" : "other", wait: wait, owner: "me"))
        }
        stage.run(milliseconds: 100)
        if let held { _ = stage.release(held) }
        stage.run(milliseconds: 1000)
        let fences = calls.map { $0.result?.lease?.fence }
        #expect(fences[0] != nil)
        #expect(fences[0] == fences[1])
        #expect(calls.allSatisfy { $0.resultCount == 1 })
    }
}

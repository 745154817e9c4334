import Interlock
import InterlockCore
import Testing

@testable import Simulation

@Suite("Fences rise despite lost counters and clock jumps")
struct FenceScenarioTests {
    /// Acquires and releases a lock once. Returns the lease's fence.
    private static func fence(of name: String = "orders", on stage: Stage, through sidecar: Int = 0) throws -> Int64 {
        let request = try LockFaultTests.request(name, ttl: 30_000)
        let lease = try #require(stage.result(of: stage.acquire(request, through: sidecar))?.lease)
        _ = stage.result(of: stage.release(lease, through: sidecar))
        return lease.fence
    }

    /// The time by the Redis clock, in microseconds.
    private static func clock(of stage: Stage) throws -> Int64 {
        let parts = stage.cli("TIME").split(separator: " ").compactMap { Int64($0) }
        try #require(parts.count == 2)
        return parts[0] * 1_000_000 + parts[1]
    }

    /// Acquires locks until the sidecars have learned the Redis clock.
    private static func learnClock(on stage: Stage, by sidecars: Range<Int> = 0..<1) throws {
        for _ in 0..<6 {
            for sidecar in sidecars { _ = try fence(of: "other", on: stage, through: sidecar) }
            stage.run(milliseconds: 100)
        }
    }

    @Test("Fences lag behind the Redis clock by at most the slack and are never ahead of it")
    func nearTheClock() throws {
        let stage = Stage(sidecars: 2)
        for turn in 0..<200 {
            let fence = try Self.fence(on: stage, through: turn % 2)
            let behind = try Self.clock(of: stage) - fence
            #expect((0...200_000).contains(behind), "turn \(turn)")
            stage.run(milliseconds: Int64(turn))
        }
    }

    @Test(
        "A server that is promoted without the last grants still grants higher fences",
        arguments: [1, 1000, 1_000_000] as [Int64])
    func counterSetBack(by lost: Int64) throws {
        let stage = Stage()
        try Self.learnClock(on: stage)
        let last = try Self.fence(on: stage)
        stage.cli("SET", "interlock:fence:{orders}", "\(last - lost - 4_000_000)", "PX", "60000")
        #expect(try Self.fence(on: stage) > last)
    }

    @Test(
        "The next waiter in a sidecar's turn gets a higher fence, even if the counter is set back or lost",
        arguments: [1, 1000, 4_000_000, nil] as [Int64?])
    func continuesTurn(after lost: Int64?) throws {
        let stage = Stage()
        try Self.learnClock(on: stage)
        let holder = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 30_000)))?.lease)
        let first = stage.acquire(try LockFaultTests.request("orders", wait: 20_000))
        let second = stage.acquire(try LockFaultTests.request("orders", wait: 20_000))
        stage.run(milliseconds: 150)
        if let lost {
            stage.cli("SET", "interlock:fence:{orders}", "\(holder.fence - lost)", "PX", "60000")
        } else {
            stage.cli("DEL", "interlock:fence:{orders}")
        }
        _ = stage.release(holder)
        let granted = try #require(stage.result(of: first)?.lease)
        #expect(granted.fence > holder.fence)
        _ = stage.release(granted)
        #expect(try #require(stage.result(of: second)?.lease).fence > granted.fence)
    }

    @Test("A server that is promoted within milliseconds without the last grants still grants higher fences", arguments: 0..<10)
    func takenOverAtOnce(after milliseconds: Int64) throws {
        let stage = Stage()
        try Self.learnClock(on: stage)
        let earlier = try Self.fence(on: stage)
        for _ in 0..<5 { _ = try Self.fence(on: stage) }
        let last = try Self.fence(on: stage)
        stage.path(of: 0, to: stage.redis).cutAll()
        stage.cli("SET", "interlock:fence:{orders}", "\(earlier)", "PX", "60000")
        stage.run(upToMilliseconds: 1000) { stage.status()?.isRedisUp == false }
        #expect(stage.run(upToMilliseconds: 1000) { stage.status()?.isRedisUp ?? false })
        // The grant shows the sidecar that the server is a primary.
        _ = try Self.fence(of: "other", on: stage)
        stage.run(milliseconds: milliseconds)
        #expect(try Self.fence(on: stage) > last)
    }

    @Test("After the loss of all data fences continue from the Redis clock")
    func wiped() throws {
        let stage = Stage()
        try Self.learnClock(on: stage)
        let last = try Self.fence(on: stage)
        stage.cli("FLUSHALL")
        #expect(try Self.fence(on: stage) > last)
    }

    @Test("After the loss of all data fences continue although the Redis clock was slewed for half a minute")
    func wipedWhileTheClockIsSlow() throws {
        let stage = Stage()
        try Self.learnClock(on: stage)
        var last: Int64 = 0
        for turn in 1...300 {
            stage.redis.setClock(aheadByMilliseconds: Int64(turn) * -8)
            stage.run(milliseconds: 100)
            last = try Self.fence(on: stage)
        }
        stage.cli("FLUSHALL")
        stage.run(milliseconds: 150)
        #expect(try Self.fence(on: stage) > last)
    }

    @Test("A counter does not lapse before the Redis clock has reached it, even after hours")
    func lapse() throws {
        let stage = Stage()
        _ = try Self.fence(on: stage)
        try Self.learnClock(on: stage)
        // The clock is set back, so the fence continues from the time that it showed before.
        stage.redis.setClock(aheadByMilliseconds: -7_200_000)
        let last = try Self.fence(on: stage)
        stage.run(milliseconds: 7_000_000)
        #expect(try Self.fence(on: stage) > last)
    }

    @Test(
        "Two sidecars that saw the Redis clock before and after it was set alternate with rising fences",
        arguments: [-3_600_000, 3_600_000] as [Int64])
    func clockSet(by milliseconds: Int64) throws {
        let stage = Stage(sidecars: 2)
        try Self.learnClock(on: stage, by: 0..<2)
        stage.path(of: 1, to: stage.redis).cutAll()
        stage.redis.setClock(aheadByMilliseconds: milliseconds)
        var last: Int64 = 0
        for turn in 0..<60 {
            let fence = try Self.fence(on: stage, through: turn % 2)
            #expect(fence > last, "turn \(turn)")
            last = fence
            stage.run(milliseconds: 25)
        }
    }

    @Test("After the loss of all data a distant sidecar grants no lower fence than a nearby one just did")
    func wipedFarAway() throws {
        let stage = Stage(sidecars: 2)
        try Self.learnClock(on: stage, by: 0..<2)
        stage.path(of: 1, to: stage.redis).delay = 200_000_000...200_000_000
        let late = stage.acquire(try LockFaultTests.request("orders", ttl: 30_000), through: 1)
        stage.run(milliseconds: 150)
        let last = try Self.fence(on: stage, through: 0)
        stage.cli("FLUSHALL")
        #expect(try #require(stage.result(of: late)?.lease).fence > last)
    }

    @Test("A turn that is offered again after a failover is claimed with another fence")
    func claimedTwice() throws {
        let stage = Stage(sidecars: 2)
        let holder = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 30_000)))?.lease)
        let first = stage.acquire(try LockFaultTests.request("orders", wait: 20_000), through: 1)
        let second = stage.acquire(try LockFaultTests.request("orders", wait: 20_000), through: 1)
        stage.run(milliseconds: 100)
        _ = stage.release(holder)
        var offered = ""
        for _ in 0..<10_000 where !offered.contains("/ticket/") {
            stage.after(milliseconds: 0) { offered = stage.cli("GET", "interlock:lock:{orders}") }
            stage.run(milliseconds: 1)
        }
        let ticket = try #require(offered.split(separator: " ").last.map(String.init))
        let fence = try #require(stage.cli("GET", "interlock:fence:{orders}").split(separator: " ").last.map(String.init))
        let granted = try #require(stage.result(of: first)?.lease)
        stage.path(of: 1, to: stage.redis).cutAll()
        stage.cli("SET", "interlock:lock:{orders}", ticket, "PX", "300")
        stage.cli("SET", "interlock:fence:{orders}", fence, "PX", "60000")
        #expect(try #require(stage.result(of: second)?.lease).fence > granted.fence)
    }

    @Test("Readings of the Redis clock are ignored after it was set so far ahead that counters lapse immediately")
    func clockFarAhead() throws {
        let stage = Stage(sidecars: 2, locks: LockSettings(fenceLifetime: .seconds(3600)))
        stage.redis.setClock(aheadByMilliseconds: -2000)
        try Self.learnClock(on: stage, by: 0..<2)
        stage.redis.setClock(aheadByMilliseconds: 86_400_000)
        let first = try Self.fence(on: stage, through: 0)
        #expect(try Self.fence(on: stage, through: 1) > first)
    }
}

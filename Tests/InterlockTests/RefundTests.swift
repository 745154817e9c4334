import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import Interlock

@Suite("Refunds to a limit")
struct RefundTests {
    @Test(
        "A gcra limit accepts no refund for capacity that has already refilled",
        arguments: [(-1, 60), (30, 59)] as [(Int64, Int64)])
    func gcra(secondsUntilFull: Int64, expected: Int64) async throws {
        let limit = LimitDefinition(name: "1m", limit: 60, window: .seconds(60), algorithm: .gcra(burst: 99))
        try await Fleet.run(services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            let clock = try await fleet.cli("TIME").array ?? []
            let now = (Int64(clock[0].text ?? "") ?? 0) * 1_000_000 + (Int64(clock[1].text ?? "") ?? 0)
            // Other callers occupy the counter for another minute.
            let arrival = now + 60_000_000
            try await fleet.cli("SET", "counter", "\(arrival)")
            let source = String(decoding: RefundScript.source.source, as: UTF8.self)
            let until = now + secondsUntilFull * 1_000_000
            try await fleet.cli("EVAL", source, "1", "counter", "2", "1", "\(until)", "60", "60000", "100")
            let stored = try await fleet.cli("GET", "counter").text?.split(separator: ":").first.flatMap { Int64($0) } ?? 0
            #expect(stored == now + expected * 1_000_000)
        }
    }

    @Test("A gcra limit accepts only the part of a refund that has not already refilled")
    func gcraInPart() async throws {
        try await Fleet.run { fleet in
            let clock = try await fleet.cli("TIME").array ?? []
            let now = (Int64(clock[0].text ?? "") ?? 0) * 1_000_000 + (Int64(clock[1].text ?? "") ?? 0)
            try await fleet.cli("SET", "counter", "\(now + 60_000_000)")
            let source = String(decoding: RefundScript.source.source, as: UTF8.self)
            // Each call takes 20 s to be restored, so about 30 s of the 40 s for both are still outstanding.
            try await fleet.cli("EVAL", source, "1", "counter", "2", "2", "\(now + 30_000_000)", "3", "60000", "3")
            let stored = try await fleet.cli("GET", "counter").text?.split(separator: ":").first.flatMap { Int64($0) } ?? 0
            #expect((now + 30_000_000...now + 50_000_000).contains(stored))
        }
    }

    @Test("A sliding limit refunds at most what was taken at that moment, and the other limits' refunds still apply")
    func slidingTwice() async throws {
        try await Fleet.run(services: [ServiceDefinition(name: "catalog")]) { fleet in
            let clock = try await fleet.cli("TIME").array ?? []
            let now = (Int64(clock[0].text ?? "") ?? 0) * 1_000_000 + (Int64(clock[1].text ?? "") ?? 0)
            try await fleet.cli("HSET", "log", "head", "1", "tail", "1", "total", "2", "last", "\(now)", "1", "\(now):2")
            try await fleet.cli("SET", "counter", "5", "PX", "60000")
            let source = String(decoding: RefundScript.source.source, as: UTF8.self)
            let end = now / 1000 + 60_000
            for amount in ["2", "1"] {
                let returned = try await fleet.cli(
                    "EVAL", source, "2", "log", "counter", "1", amount, "\(now)", "10", "60000", "10", "0", "1", "\(end)",
                    "10", "60000", "10")
                #expect(returned.integer == 2)
            }
            #expect(try await fleet.cli("HGET", "log", "total").integer == 0)
            #expect(try await fleet.cli("GET", "counter").integer == 3)
        }
    }

    @Test("A fixed window whose calls were all refunded keeps its end")
    func fixedWindowKeepsEnd() async throws {
        let limit = LimitDefinition(name: "1m", limit: 2, window: .seconds(60))
        try await Fleet.run(of: 2, services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            #expect(try await fleet.sidecars[0].take(service: "catalog").isAllowed)
            // As `refund.lua` leaves it, 20 s before the window ends.
            try await fleet.cli("DECR", "interlock:rate:{catalog}:1m")
            try await fleet.cli("PEXPIRE", "interlock:rate:{catalog}:1m", "20000")
            #expect(try await fleet.sidecars[1].take(service: "catalog").isAllowed)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 1)
            let left = try await fleet.cli("PTTL", "interlock:rate:{catalog}:1m").integer ?? 0
            #expect((1...20_000).contains(left))
        }
    }

    @Test("A counter that was set by hand to nothing taken, or to less, begins a new window", arguments: ["0", "0.0", "-5"])
    func counterSetByHand(value: String) async throws {
        let limit = LimitDefinition(name: "1m", limit: 2, window: .seconds(60))
        try await Fleet.run(services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            #expect(try await fleet.sidecars[0].take(service: "catalog").isAllowed)
            try await fleet.cli("SET", "interlock:rate:{catalog}:1m", value)
            #expect(try await fleet.sidecars[0].take(service: "catalog").isAllowed)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 1)
            #expect(try await fleet.cli("PTTL", "interlock:rate:{catalog}:1m").integer ?? 0 > 0)
        }
    }
}

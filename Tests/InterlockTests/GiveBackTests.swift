import Hiredis
import InterlockCore
import InterlockTesting
import Testing

@testable import Interlock

@Suite("What is given back to a limit")
struct GiveBackTests {
    @Test(
        "a smooth limit takes nothing back that has come back by itself meanwhile",
        arguments: [(-1, 60), (30, 59)] as [(Int64, Int64)])
    func smooth(secondsUntilWhole: Int64, expected: Int64) async throws {
        let limit = LimitDefinition(name: "1m", limit: 60, window: .seconds(60), algorithm: .gcra(burst: 99))
        try await Fleet.run(services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            let clock = try await fleet.cli("TIME").array ?? []
            let now = (Int64(clock[0].text ?? "") ?? 0) * 1_000_000 + (Int64(clock[1].text ?? "") ?? 0)
            // The counter is in use by others for a minute more.
            let arrival = now + 60_000_000
            try await fleet.cli("SET", "counter", "\(arrival)")
            let source = String(decoding: GiveBackScript.source.source, as: UTF8.self)
            let until = now + secondsUntilWhole * 1_000_000
            try await fleet.cli("EVAL", source, "1", "counter", "2", "1", "\(until)", "60", "60000")
            let left = try await fleet.cli("GET", "counter").text.flatMap { Int64($0) } ?? 0
            #expect(left == now + expected * 1_000_000)
        }
    }
}

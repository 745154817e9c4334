import InterlockCore
import Testing

@testable import SidecarListeners
@testable import SidecarTelemetry

@Suite("Command durations")
struct CommandTimesTests {
    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    private static func lines(_ registry: PrometheusRegistry) -> [String] {
        registry.exposition().split(separator: "\n").map(String.init).filter { $0.hasPrefix("interlock_resp_command_seconds") }
    }

    @Test("Each command is counted once, regardless of its form and outcome")
    func eachCommandIsCountedOnce() {
        let registry = PrometheusRegistry()
        let times = CommandTimes(in: registry)
        var arrivals = CommandArrivals()
        let take = RESPCommandTable.Command.limitTake.rawValue
        arrivals.recordArrival(RESPCommandTable.Command.ping.rawValue, tag: 7, at: Self.at(0))
        arrivals.recordArrival(take, tag: 8, at: Self.at(0))
        arrivals.recordRepeats(99)
        arrivals.recordArrival(take, tag: 108, at: Self.at(0))
        arrivals.recordArrival(RESPCommandTable.unknown, tag: 109, at: Self.at(40))
        arrivals.recordReplies(before: 8, now: Self.at(1), times)
        arrivals.recordReplies(before: 58, now: Self.at(2), times)
        arrivals.recordReplies(before: 58, now: Self.at(3), times)
        arrivals.recordReplies(before: 110, now: Self.at(50), times)
        #expect(arrivals.isEmpty)
        let lines = Self.lines(registry)
        #expect(lines.contains(#"interlock_resp_command_seconds_count{command="ping"} 1"#))
        #expect(lines.contains(#"interlock_resp_command_seconds_count{command="limit.take"} 101"#))
        #expect(lines.contains(#"interlock_resp_command_seconds_bucket{command="limit.take",le="0.0025"} 50"#))
        #expect(lines.contains(#"interlock_resp_command_seconds_bucket{command="unknown",le="0.01"} 1"#))
        #expect(!lines.contains { $0.contains("echo") })
    }

    @Test("A real listener counts every reply, including delayed and pipelined ones")
    func realListenerCountsEveryReply() async throws {
        try await RESPTestAPI.with { api in
            let takes = String(repeating: "LIMIT.TAKE catalog\r\n", count: 50)
            _ = try await api.exchange("\(takes)LOCK.ACQUIRE a 30000\r\nPING\r\nNOPE\r\nECHO done\r\n", until: "$4\r\ndone\r\n")
            let lines = Self.lines(api.metrics)
            for (command, count) in [("limit.take", 50), ("lock.acquire", 1), ("unknown", 1)] {
                #expect(lines.contains(#"interlock_resp_command_seconds_count{command="\#(command)"} \#(count)"#), "\(lines)")
            }
        }
    }
}

import InterlockJudge
import InterlockCore
import InterlockLoad
import Testing

@testable import InterlockBenchCLI

@Suite("Table of a load run")
struct RunReportTableTests {
    private static func report(_ change: (inout RunReport) -> Void = { _ in }) -> RunReport {
        var report = RunReport(
            title: "lock", startedAtMilliseconds: 1_795_237_271_176, durationSeconds: 30, seed: 42,
            settings: [.init(name: "clients", value: "64")])
        report.operations = [
            OperationReport(
                kind: .acquire, offered: 1_234_567, done: 1_230_000, refused: ["held": 4000, "busy": 5],
                failed: ["UNAVAILABLE": 500], unknown: 62,
                latency: LatencyReport(
                    count: 1_234_505, mean: 210, p50: 180, p90: 400, p99: 1500, p999: 9000, max: 1_200_000, percentiles: []))
        ]
        report.redisCommands = 2_470_000
        report.redisCommandsPerOperation = 2.004
        report.processes = [
            ProcessReport(name: "sidecar 0", averageCores: 0.42, residentPeakBytes: 41_943_040, residentEndBytes: 40_894_464)
        ]
        report.check = CheckReport(operations: 1_234_505, lockGrants: 1_230_000, staleWritesRefused: 3)
        change(&report)
        return report
    }

    @Test("The first line describes the run, and the last one gives the result")
    func firstAndLastLine() {
        let lines = Self.report().table.split(separator: "\n")
        #expect(lines.first == "lock for 30.0s from 2026-11-21T05:01:11.176Z, seed 42")
        #expect(lines.last == "0 violations in 1,234,505 operations")
    }

    @Test("Each kind of operation has a line")
    func eachKindOfOperationHasALine() {
        let line = Self.report().table.split(separator: "\n").first { $0.hasPrefix("acquire ") }
        let cells = line?.split(separator: " ").map(String.init)
        #expect(
            cells == [
                "acquire", "1,234,567", "1,230,000", "4,005", "500", "62", "0", "180µs", "400µs", "1.50ms", "9.00ms", "1.20s",
            ])
    }

    @Test("Reasons of refusals and failures are listed, the most frequent first")
    func reasonsAreListedMostFrequentFirst() {
        let lines = Self.report().table.split(separator: "\n").drop { !$0.hasPrefix("OPERATION  ENDED") }.dropFirst().prefix(3)
        #expect(
            lines.map { $0.split(separator: " ").dropFirst().joined(separator: " ") } == [
                "refused held 4,000", "refused busy 5", "failed UNAVAILABLE 500",
            ])
    }

    @Test("The first twenty violations are listed, with the number of the rest")
    func firstTwentyViolationsAreListed() {
        let report = Self.report {
            $0.check.violations = (0..<100).map { Violation(.exclusion, at: Instant(nanoseconds: 0), "lock \($0)") }
            $0.check.violationCount = 1234
        }
        let lines = report.table.split(separator: "\n")
        #expect(lines.count { $0.hasPrefix("exclusion at") } == 20)
        #expect(lines.suffix(2) == ["… and 1,214 more", "1,234 violations in 1,234,505 operations"])
    }

    @Test("A fault is listed with its effect and duration")
    func faultIsListedWithEffectAndDuration() {
        let report = Self.report {
            $0.faults = [
                FaultReport(
                    number: 0, kind: .redisRestart, sidecar: nil, beganSeconds: 3, endedSeconds: 4.25,
                    recoveredAfterSeconds: 0.32
                )
            ]
        }
        #expect(report.table.contains("redis-restart  redis   3.00s  4.25s  320ms"))
    }

    @Test("A run without results has a table too")
    func runWithoutResultsHasATableToo() {
        let report = Self.report {
            $0.settings = []
            $0.operations = []
            $0.redisCommands = nil
            $0.processes = []
            $0.check = CheckReport()
        }
        #expect(report.table.contains("Redis commands        unknown"))
        #expect(report.table.hasSuffix("\n\n0 violations in 0 operations"))
    }
}

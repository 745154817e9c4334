import InterlockJudge
import InterlockCore
import InterlockLoad

extension RunReport {
    /// Returns the report of a run of ten seconds, with data of every kind.
    static func sample() -> RunReport {
        var report = RunReport(
            title: "mixed", startedAtMilliseconds: 1_795_000_000_000, durationSeconds: 10, seed: 42,
            settings: [Setting(name: "rate", value: "5000/s")])
        report.operations = [
            OperationReport(
                kind: .acquire, offered: 50_000, done: 48_000, refused: ["held": 1500, "busy": 20],
                failed: ["UNAVAILABLE": 400], unknown: 80,
                latency: LatencyReport(
                    count: 49_920, mean: 210, p50: 180, p90: 400, p99: 1500, p999: 9000, max: 1_200_000,
                    percentiles: [
                        .init(fraction: 0, microseconds: 90), .init(fraction: 0.9, microseconds: 400),
                        .init(fraction: 1, microseconds: 1_200_000),
                    ]))
        ]
        report.timeline = (0..<10).map {
            TimelinePoint(second: $0, offered: 5000, done: 4800, refused: 152, failed: 48, p50: 180, p99: 1500, max: 9000)
        }
        report.redisCommands = 100_000
        report.redisCommandsPerOperation = 2.02
        report.processes = [
            ProcessReport(name: "sidecar 0", averageCores: 0.42, residentPeakBytes: 41_943_040, residentEndBytes: 40_894_464)
        ]
        report.faults = [
            FaultReport(
                number: 0, kind: .kill, sidecar: 0, beganSeconds: 3, endedSeconds: 3.5, recoveredAfterSeconds: 0.25)
        ]
        report.ownership = [
            OwnershipSpan(
                lock: 0, client: 7, sidecar: 0, fence: 1_790_000_000_000_001, beganSeconds: 1, endedSeconds: 1.5)
        ]
        report.windows = [WindowCount(service: "catalog", beganSeconds: 0, granted: 99, limit: 100)]
        report.check = CheckReport(operations: 49_920, lockGrants: 48_000, limitDecisions: 0, staleWritesRefused: 3)
        return report
    }

    /// Returns the report of a run without any operations.
    static func empty() -> RunReport {
        RunReport(title: "lock", startedAtMilliseconds: 0, durationSeconds: 0, seed: 0, settings: [])
    }
}

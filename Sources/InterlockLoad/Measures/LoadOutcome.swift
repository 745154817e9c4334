package import InterlockCore
package import InterlockJudge

/// The measurements of a run: a `RunReport` without faults and check results.
package struct LoadOutcome: Sendable {
    /// The start of the run, as Unix time in milliseconds.
    package var startedAtMilliseconds: Int64
    /// The start of the run by the clock of histories. The times of a report count from it.
    package var start: Instant
    /// The time in seconds from the start of the run until its last operation ended.
    package var durationSeconds: Double
    package var operations: [OperationReport]
    package var timeline: [TimelinePoint]
    package var redisCommands: Double?
    package var redisCommandsPerOperation: Double?
    package var processes: [ProcessReport]
    package var ownership: [OwnershipSpan]
    package var windows: [WindowCount]

    package func report(
        title: String, seed: UInt64, settings: [RunReport.Setting], faults: [FaultReport] = [], check: CheckReport = CheckReport()
    ) -> RunReport {
        var report = RunReport(
            title: title, startedAtMilliseconds: startedAtMilliseconds, durationSeconds: durationSeconds, seed: seed,
            settings: settings)
        report.operations = operations
        report.timeline = timeline
        report.redisCommands = redisCommands
        report.redisCommandsPerOperation = redisCommandsPerOperation
        report.processes = processes
        report.faults = faults
        report.ownership = ownership
        report.windows = windows
        report.check = check
        return report
    }
}

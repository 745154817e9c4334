package import InterlockCore
package import InterlockJudge

/// What a run measured: all that a `RunReport` has but for faults and what the checkers say.
package struct LoadOutcome: Sendable {
    /// Unix time in ms.
    package var startedAt: Int64
    /// The same on the clock of histories: what the seconds of a report are counted from.
    package var start: Instant
    /// In seconds, until the last operation had ended.
    package var duration: Double
    package var operations: [OperationReport]
    package var timeline: [TimelinePoint]
    package var redisCommands: Double?
    package var redisCommandsPerOperation: Double?
    package var processes: [ProcessReport]
    package var ownership: [OwnershipSpan]
    package var windows: [WindowCount]

    /// The run's report.
    package func report(
        title: String, seed: UInt64, settings: [RunReport.Setting], faults: [FaultReport] = [], check: CheckReport = CheckReport()
    ) -> RunReport {
        var report = RunReport(title: title, startedAt: startedAt, duration: duration, seed: seed, settings: settings)
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

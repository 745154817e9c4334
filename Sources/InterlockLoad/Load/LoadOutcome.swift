public import InterlockJudge
public import InterlockCore

/// What a run measured: all that a `RunReport` has but for faults and what the checkers say.
public struct LoadOutcome: Sendable {
    /// Unix time in ms.
    public var startedAt: Int64
    /// The same on the clock of histories: what the seconds of a report are counted from.
    public var start: Instant
    /// In seconds, until the last operation had ended.
    public var duration: Double
    public var operations: [OperationReport]
    public var timeline: [TimelinePoint]
    public var redisCommands: Double?
    public var redisCommandsPerOperation: Double?
    public var processes: [ProcessReport]
    public var ownership: [OwnershipSpan]
    public var windows: [WindowCount]

    /// The run's report.
    public func report(
        title: String, seed: UInt64, settings: [RunReport.Setting], faults: [FaultReport] = [], check: CheckReport = CheckReport()
    ) -> RunReport {
        RunReport(
            title: title, startedAt: startedAt, duration: duration, seed: seed, settings: settings, operations: operations,
            timeline: timeline, redisCommands: redisCommands, redisCommandsPerOperation: redisCommandsPerOperation,
            processes: processes, faults: faults, ownership: ownership, windows: windows, check: check)
    }
}

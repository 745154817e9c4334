package import InterlockJudge

/// The results of a run, for the table, JSON and the HTML page. Times are in seconds since the start of the run,
/// latencies in microseconds since the operation was due.
package struct RunReport: Codable, Sendable {
    /// The workload, such as `mixed`.
    package var title: String
    /// The start of the run, as Unix time in milliseconds.
    package var startedAtMilliseconds: Int64
    /// The time in seconds until the last operation ended.
    package var durationSeconds: Double
    package var seed: UInt64
    /// The settings of the run, such as `load` with the value `5,000/s, open loop`.
    package var settings: [Setting]
    package var operations: [OperationReport] = []
    /// The results per second.
    package var timeline: [TimelinePoint] = []
    /// The number of commands that the sidecars sent to Redis; `nil` if no sidecar reported it.
    package var redisCommands: Double?
    /// The number of Redis commands per operation that was done or refused.
    package var redisCommandsPerOperation: Double?
    package var processes: [ProcessReport] = []
    package var faults: [FaultReport] = []
    /// The holders of the first few locks over time. The number is limited.
    package var ownership: [OwnershipSpan] = []
    /// The grants in each window of the first few limits. The number is limited.
    package var windows: [WindowCount] = []
    package var check = CheckReport()

    package init(
        title: String, startedAtMilliseconds: Int64, durationSeconds: Double, seed: UInt64, settings: [Setting]
    ) {
        self.title = title
        self.startedAtMilliseconds = startedAtMilliseconds
        self.durationSeconds = durationSeconds
        self.seed = seed
        self.settings = settings
    }

    package struct Setting: Codable, Hashable, Sendable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }
}

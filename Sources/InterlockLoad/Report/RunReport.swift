package import InterlockJudge

/// What a run found: for the table, for JSON and for the HTML page. All times in seconds since its start, latencies in
/// microseconds from when a request was due.
package struct RunReport: Codable, Sendable {
    /// The workload: `mixed`.
    package var title: String
    /// Unix time in ms.
    package var startedAt: Int64
    package var duration: Double
    package var seed: UInt64
    /// What was asked for, in words: `rate: 5000/s`.
    package var settings: [Setting]
    package var operations: [OperationReport] = []
    /// One point for each second.
    package var timeline: [TimelinePoint] = []
    /// Commands that Redis received from all its clients; `nil`: Redis was not there to be asked.
    package var redisCommands: Double?
    /// The same for each operation that was done or refused.
    package var redisCommandsPerOperation: Double?
    package var processes: [ProcessReport] = []
    package var faults: [FaultReport] = []
    /// Who held the first few locks when; bounded.
    package var ownership: [OwnershipSpan] = []
    /// What was granted in each window of the first few limits; bounded.
    package var windows: [WindowCount] = []
    package var check = CheckReport()

    package init(title: String, startedAt: Int64, duration: Double, seed: UInt64, settings: [Setting]) {
        self.title = title
        self.startedAt = startedAt
        self.duration = duration
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

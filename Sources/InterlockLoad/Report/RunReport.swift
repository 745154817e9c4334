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

/// What became of one kind of operation.
package struct OperationReport: Codable, Hashable, Sendable {
    package var kind: OperationKind
    /// How many were due.
    package var offered: Int
    package var done: Int
    /// By the reason's name.
    package var refused: [String: Int]
    /// By the error's first word.
    package var failed: [String: Int]
    /// Without an answer.
    package var unknown: Int
    /// Due, and never sent: the harness had too many of them already.
    package var unsent: Int
    /// Of all that were answered; `nil`: none was.
    package var latency: LatencyReport?

    package init(
        kind: OperationKind, offered: Int = 0, done: Int = 0, refused: [String: Int] = [:], failed: [String: Int] = [:],
        unknown: Int = 0, unsent: Int = 0, latency: LatencyReport? = nil
    ) {
        self.kind = kind
        self.offered = offered
        self.done = done
        self.refused = refused
        self.failed = failed
        self.unknown = unknown
        self.unsent = unsent
        self.latency = latency
    }
}

/// A distribution of latencies in microseconds.
package struct LatencyReport: Codable, Hashable, Sendable {
    package var count: Int
    package var mean: Double
    package var p50: Double
    package var p90: Double
    package var p99: Double
    package var p999: Double
    package var max: Double
    /// For a plot: shares (0 ..< 1) that come ever closer to 1, and the latency that this share of all did not exceed.
    package var percentiles: [Percentile]

    package init(
        count: Int, mean: Double, p50: Double, p90: Double, p99: Double, p999: Double, max: Double, percentiles: [Percentile]
    ) {
        self.count = count
        self.mean = mean
        self.p50 = p50
        self.p90 = p90
        self.p99 = p99
        self.p999 = p999
        self.max = max
        self.percentiles = percentiles
    }

    package struct Percentile: Codable, Hashable, Sendable {
        package var share: Double
        package var microseconds: Double

        package init(share: Double, microseconds: Double) {
            self.share = share
            self.microseconds = microseconds
        }
    }
}

/// One second of a run, all operations taken together.
package struct TimelinePoint: Codable, Hashable, Sendable {
    /// When the second began.
    package var second: Int
    package var offered: Int
    package var done: Int
    package var refused: Int
    /// Failed and unknown.
    package var failed: Int
    package var p50: Double?
    package var p99: Double?
    package var max: Double?

    package init(
        second: Int, offered: Int = 0, done: Int = 0, refused: Int = 0, failed: Int = 0, p50: Double? = nil, p99: Double? = nil,
        max: Double? = nil
    ) {
        self.second = second
        self.offered = offered
        self.done = done
        self.refused = refused
        self.failed = failed
        self.p50 = p50
        self.p99 = p99
        self.max = max
    }
}

/// What a process used.
package struct ProcessReport: Codable, Hashable, Sendable {
    /// `sidecar 1`, `redis`, `harness`.
    package var name: String
    /// Of one core, on average.
    package var coreShare: Double
    /// The most that was seen, in bytes.
    package var residentPeak: Int
    /// At the end, in bytes.
    package var residentEnd: Int

    package init(name: String, coreShare: Double, residentPeak: Int, residentEnd: Int) {
        self.name = name
        self.coreShare = coreShare
        self.residentPeak = residentPeak
        self.residentEnd = residentEnd
    }
}

/// A fault that was made.
package struct FaultReport: Codable, Hashable, Sendable {
    /// Within the run.
    package var number: Int
    package var kind: FaultKind
    /// `nil`: it concerned Redis, or all.
    package var sidecar: Int?
    package var began: Double
    package var ended: Double
    /// After how many seconds from its end every sidecar served again; `nil`: another fault came before that, or never.
    package var recoveredAfter: Double?

    package init(
        number: Int, kind: FaultKind, sidecar: Int?, began: Double, ended: Double, recoveredAfter: Double? = nil
    ) {
        self.number = number
        self.kind = kind
        self.sidecar = sidecar
        self.began = began
        self.ended = ended
        self.recoveredAfter = recoveredAfter
    }
}

/// A lease from its grant to its release or its end.
package struct OwnershipSpan: Codable, Hashable, Sendable {
    package var lock: Int
    package var client: Int
    package var sidecar: Int
    package var fence: Int64
    package var began: Double
    package var ended: Double

    package init(lock: Int, client: Int, sidecar: Int, fence: Int64, began: Double, ended: Double) {
        self.lock = lock
        self.client = client
        self.sidecar = sidecar
        self.fence = fence
        self.began = began
        self.ended = ended
    }
}

/// What was granted of a limit in one of its windows.
package struct WindowCount: Codable, Hashable, Sendable {
    package var service: String
    /// When the window began.
    package var began: Double
    package var granted: Int64
    package var limit: Int64

    package init(service: String, began: Double, granted: Int64, limit: Int64) {
        self.service = service
        self.began = began
        self.granted = granted
        self.limit = limit
    }
}

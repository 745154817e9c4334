public import InterlockJudge

/// What a run found: for the table, for JSON and for the HTML page. All times in seconds since its start, latencies in
/// microseconds from when a request was due.
public struct RunReport: Codable, Sendable {
    /// The workload: `mixed`.
    public var title: String
    /// Unix time in ms.
    public var startedAt: Int64
    public var duration: Double
    public var seed: UInt64
    /// What was asked for, in words: `rate: 5000/s`.
    public var settings: [Setting]
    public var operations: [OperationReport]
    /// One point for each second.
    public var timeline: [TimelinePoint]
    /// Commands that Redis received from all its clients; `nil`: Redis was not there to be asked.
    public var redisCommands: Double?
    /// The same for each operation that was done or refused.
    public var redisCommandsPerOperation: Double?
    public var processes: [ProcessReport]
    public var faults: [FaultReport]
    /// Who held the first few locks when; bounded.
    public var ownership: [OwnershipSpan]
    /// What was granted in each window of the first few limits; bounded.
    public var windows: [WindowCount]
    public var check: CheckReport

    public init(
        title: String, startedAt: Int64, duration: Double, seed: UInt64, settings: [Setting], operations: [OperationReport],
        timeline: [TimelinePoint], redisCommands: Double?, redisCommandsPerOperation: Double?, processes: [ProcessReport],
        faults: [FaultReport], ownership: [OwnershipSpan], windows: [WindowCount], check: CheckReport
    ) {
        self.title = title
        self.startedAt = startedAt
        self.duration = duration
        self.seed = seed
        self.settings = settings
        self.operations = operations
        self.timeline = timeline
        self.redisCommands = redisCommands
        self.redisCommandsPerOperation = redisCommandsPerOperation
        self.processes = processes
        self.faults = faults
        self.ownership = ownership
        self.windows = windows
        self.check = check
    }

    public struct Setting: Codable, Hashable, Sendable {
        public var name: String
        public var value: String

        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }
}

/// What became of one kind of operation.
public struct OperationReport: Codable, Hashable, Sendable {
    public var kind: OperationKind
    /// How many were due.
    public var offered: Int
    public var done: Int
    /// By the reason's name.
    public var refused: [String: Int]
    /// By the error's first word.
    public var failed: [String: Int]
    /// Without an answer.
    public var unknown: Int
    /// Due, and never sent: the harness had too many of them already.
    public var unsent: Int
    /// Of all that were answered; `nil`: none was.
    public var latency: LatencyReport?

    public init(
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
public struct LatencyReport: Codable, Hashable, Sendable {
    public var count: Int
    public var mean: Double
    public var p50: Double
    public var p90: Double
    public var p99: Double
    public var p999: Double
    public var max: Double
    /// For a plot: shares (0 ..< 1) that come ever closer to 1, and the latency that this share of all did not exceed.
    public var percentiles: [Percentile]

    public init(
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

    public struct Percentile: Codable, Hashable, Sendable {
        public var share: Double
        public var microseconds: Double

        public init(share: Double, microseconds: Double) {
            self.share = share
            self.microseconds = microseconds
        }
    }
}

/// One second of a run, all operations taken together.
public struct TimelinePoint: Codable, Hashable, Sendable {
    /// When the second began.
    public var second: Int
    public var offered: Int
    public var done: Int
    public var refused: Int
    /// Failed and unknown.
    public var failed: Int
    public var p50: Double?
    public var p99: Double?
    public var max: Double?

    public init(
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
public struct ProcessReport: Codable, Hashable, Sendable {
    /// `sidecar 1`, `redis`, `harness`.
    public var name: String
    /// Of one core, on average.
    public var coreShare: Double
    /// The most that was seen, in bytes.
    public var residentPeak: Int
    /// At the end, in bytes.
    public var residentEnd: Int

    public init(name: String, coreShare: Double, residentPeak: Int, residentEnd: Int) {
        self.name = name
        self.coreShare = coreShare
        self.residentPeak = residentPeak
        self.residentEnd = residentEnd
    }
}

/// A fault that was made.
public struct FaultReport: Codable, Hashable, Sendable {
    /// Within the run.
    public var number: Int
    public var kind: FaultKind
    /// `nil`: it concerned Redis, or all.
    public var sidecar: Int?
    public var began: Double
    public var ended: Double
    /// After how many seconds from its end every sidecar served again; `nil`: another fault came before that, or never.
    public var recoveredAfter: Double?

    public init(
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
public struct OwnershipSpan: Codable, Hashable, Sendable {
    public var lock: Int
    public var client: Int
    public var sidecar: Int
    public var fence: Int64
    public var began: Double
    public var ended: Double

    public init(lock: Int, client: Int, sidecar: Int, fence: Int64, began: Double, ended: Double) {
        self.lock = lock
        self.client = client
        self.sidecar = sidecar
        self.fence = fence
        self.began = began
        self.ended = ended
    }
}

/// What was granted of a limit in one of its windows.
public struct WindowCount: Codable, Hashable, Sendable {
    public var service: String
    /// When the window began.
    public var began: Double
    public var granted: Int64
    public var limit: Int64

    public init(service: String, began: Double, granted: Int64, limit: Int64) {
        self.service = service
        self.began = began
        self.granted = granted
        self.limit = limit
    }
}

package import InterlockCore
package import InterlockJudge

/// All that is measured in a run. Confined to its event loop.
final class RunMeasures {
    private let start: Instant
    private var tallies = [OperationTally](repeating: OperationTally(), count: OperationKind.allCases.count)
    private var latency = LatencyRecorder()
    private var timeline: RunTimeline
    private var offered = 0
    private var done = 0
    private var refused = 0
    private var failed = 0
    private var unknown = 0
    var ownership: OwnershipLog
    var windows: WindowCounts

    init(start: Instant, services: LoadServices) {
        self.start = start
        timeline = RunTimeline(start: start)
        ownership = OwnershipLog(start: start)
        windows = WindowCounts(start: start, services: services)
    }

    func offered(_ kind: OperationKind, at now: Instant) {
        tallies[kind.place].offered += 1
        offered += 1
        timeline.offered(at: now)
    }

    func unsent(_ kind: OperationKind) {
        tallies[kind.place].unsent += 1
    }

    func ended(_ kind: OperationKind, _ ending: OperationEnding, due: Instant, at now: Instant) {
        let nanoseconds = now.nanoseconds - due.nanoseconds
        tallies[kind.place].ended(ending, latency: nanoseconds)
        timeline.ended(ending, latency: nanoseconds, at: now)
        if ending.isAnswer { latency.record(nanoseconds: nanoseconds) }
        switch ending {
        case .done: done += 1
        case .refused: refused += 1
        case .failed: failed += 1
        case .unknown: unknown += 1
        }
    }

    func progress(at now: Instant, waiting: Int, recorder: HistoryRecorder) -> LoadProgress {
        timeline.advance(to: now)
        return LoadProgress(
            seconds: now.seconds(since: start), offered: offered, done: done, refused: refused, failed: failed,
            unknown: unknown, waiting: waiting, p99: latency.microseconds(atShare: 0.99), last: timeline.points.last,
            violations: recorder.violationCount, faults: recorder.faults)
    }

    func outcome(
        startedAt: Int64, end: Instant, redisCommands commands: Double?, processes: [ProcessReport]
    ) -> LoadOutcome {
        timeline.finish(at: end)
        let answered = done + refused
        return LoadOutcome(
            startedAt: startedAt, start: start, duration: end.seconds(since: start),
            operations: OperationKind.allCases.map { tallies[$0.place].report(of: $0) }.filter { $0.offered > 0 },
            timeline: timeline.points, redisCommands: commands,
            redisCommandsPerOperation: answered > 0 ? commands.map { $0 / Double(answered) } : nil,
            processes: processes, ownership: ownership.spans, windows: windows.all)
    }
}

extension OperationKind {
    /// In a list of all.
    fileprivate var place: Int {
        switch self {
        case .acquire: 0
        case .renew: 1
        case .release: 2
        case .take: 3
        case .permit: 4
        case .report: 5
        case .proxied: 6
        }
    }
}

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

/// How a run stands, once a second.
package struct LoadProgress: Sendable {
    /// Since it began.
    package var seconds: Double
    /// All operations so far.
    package var offered: Int
    package var done: Int
    package var refused: Int
    package var failed: Int
    package var unknown: Int
    /// Due, and not begun yet.
    package var waiting: Int
    /// Of all that were answered so far, in microseconds.
    package var p99: Double?
    /// The last whole second.
    package var last: TimelinePoint?
    package var violations: Int
    /// What is broken just now.
    package var faults: [FaultKind]
}

/// Who held the first few locks when: as much of it as a picture can show.
struct OwnershipLog: Sendable {
    static let mostLocks = 8
    static let mostSpans = 4000

    private let start: Instant
    private(set) var spans: [OwnershipSpan] = []

    init(start: Instant) {
        self.start = start
    }

    /// A lease is over: it was given up, or has lapsed.
    mutating func held(lock: Int, client: Int, sidecar: Int, fence: Int64, from began: Instant, to ended: Instant) {
        guard lock < Self.mostLocks, spans.count < Self.mostSpans else { return }
        spans.append(
            OwnershipSpan(
                lock: lock, client: client, sidecar: sidecar, fence: fence, began: began.seconds(since: start),
                ended: ended.seconds(since: start)))
    }
}

extension Instant {
    func seconds(since start: Instant) -> Double { Double(nanoseconds - start.nanoseconds) / 1e9 }
}

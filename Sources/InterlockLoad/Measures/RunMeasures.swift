internal import InterlockCore
internal import InterlockJudge

/// All measurements of a run. Confined to the run's event loop.
final class RunMeasures {
    private let start: Instant
    private var tallies = [OperationTally](repeating: OperationTally(), count: OperationKind.allCases.count)
    private var latency = LatencyRecorder()
    private var timeline: RunTimeline
    private var offeredCount = 0
    private var doneCount = 0
    private var refusedCount = 0
    private var failedCount = 0
    private var unknownCount = 0
    var ownership: OwnershipLog
    var windows: WindowCounts

    init(start: Instant, services: LoadServices) {
        self.start = start
        timeline = RunTimeline(start: start)
        ownership = OwnershipLog(start: start)
        windows = WindowCounts(start: start, services: services)
    }

    /// Records that an operation was due.
    func operationDue(_ kind: OperationKind, at now: Instant) {
        tallies[kind.index].offered += 1
        offeredCount += 1
        timeline.operationDue(at: now)
    }

    /// Records that a due operation will never be sent.
    func operationDropped(_ kind: OperationKind) {
        tallies[kind.index].unsent += 1
    }

    /// Records the end of an operation. Its latency counts from `due`.
    func operationEnded(_ kind: OperationKind, _ ending: OperationEnding, due: Instant, at now: Instant) {
        let latencyNanoseconds = now.nanoseconds - due.nanoseconds
        tallies[kind.index].operationEnded(ending, latencyNanoseconds: latencyNanoseconds)
        timeline.operationEnded(ending, latencyNanoseconds: latencyNanoseconds, at: now)
        if ending.isResponse { latency.record(nanoseconds: latencyNanoseconds) }
        switch ending {
        case .done: doneCount += 1
        case .refused: refusedCount += 1
        case .failed: failedCount += 1
        case .unknown: unknownCount += 1
        }
    }

    func progress(at now: Instant, waiting: Int, recorder: HistoryRecorder) -> LoadProgress {
        timeline.advance(to: now)
        return LoadProgress(
            seconds: now.seconds(since: start), offered: offeredCount, done: doneCount, refused: refusedCount,
            failed: failedCount, unknown: unknownCount, waiting: waiting, p99: latency.microseconds(atShare: 0.99),
            last: timeline.points.last,
            violations: recorder.violationCount, faults: recorder.faults)
    }

    func outcome(
        startedAtMilliseconds: Int64, end: Instant, redisCommands commands: Double?, processes: [ProcessReport]
    ) -> LoadOutcome {
        timeline.finish(at: end)
        let answeredCount = doneCount + refusedCount
        return LoadOutcome(
            startedAtMilliseconds: startedAtMilliseconds, start: start, durationSeconds: end.seconds(since: start),
            operations: OperationKind.allCases.map { tallies[$0.index].report(of: $0) }.filter { $0.offered > 0 },
            timeline: timeline.points, redisCommands: commands,
            redisCommandsPerOperation: answeredCount > 0 ? commands.map { $0 / Double(answeredCount) } : nil,
            processes: processes, ownership: ownership.spans, windows: windows.all)
    }
}

extension OperationKind {
    /// The index of the kind's tally.
    fileprivate var index: Int {
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

/// The holders of the first few locks over time, as many as a plot can show.
struct OwnershipLog: Sendable {
    static let maximumLocks = 8
    static let maximumSpans = 4000

    private let start: Instant
    private(set) var spans: [OwnershipSpan] = []

    init(start: Instant) {
        self.start = start
    }

    /// Records a lease that was released or has expired.
    mutating func recordHold(lock: Int, client: Int, sidecar: Int, fence: Int64, from start: Instant, to end: Instant) {
        guard lock < Self.maximumLocks, spans.count < Self.maximumSpans else { return }
        spans.append(
            OwnershipSpan(
                lock: lock, client: client, sidecar: sidecar, fence: fence,
                beganSeconds: start.seconds(since: self.start),
                endedSeconds: end.seconds(since: self.start)))
    }
}

extension Instant {
    func seconds(since start: Instant) -> Double { Double(nanoseconds - start.nanoseconds) / 1e9 }
}

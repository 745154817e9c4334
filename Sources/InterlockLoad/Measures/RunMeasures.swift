internal import InterlockCore
internal import InterlockJudge

/// All measurements of a run. Confined to its event loop.
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
        tallies[kind.index].offered += 1
        offered += 1
        timeline.offered(at: now)
    }

    func unsent(_ kind: OperationKind) {
        tallies[kind.index].unsent += 1
    }

    func ended(_ kind: OperationKind, _ ending: OperationEnding, due: Instant, at now: Instant) {
        let nanoseconds = now.nanoseconds - due.nanoseconds
        tallies[kind.index].ended(ending, latency: nanoseconds)
        timeline.ended(ending, latency: nanoseconds, at: now)
        if ending.isResponse { latency.record(nanoseconds: nanoseconds) }
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
            operations: OperationKind.allCases.map { tallies[$0.index].report(of: $0) }.filter { $0.offered > 0 },
            timeline: timeline.points, redisCommands: commands,
            redisCommandsPerOperation: answered > 0 ? commands.map { $0 / Double(answered) } : nil,
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
    mutating func recordHold(lock: Int, client: Int, sidecar: Int, fence: Int64, from began: Instant, to ended: Instant) {
        guard lock < Self.maximumLocks, spans.count < Self.maximumSpans else { return }
        spans.append(
            OwnershipSpan(
                lock: lock, client: client, sidecar: sidecar, fence: fence, began: began.seconds(since: start),
                ended: ended.seconds(since: start)))
    }
}

extension Instant {
    func seconds(since start: Instant) -> Double { Double(nanoseconds - start.nanoseconds) / 1e9 }
}

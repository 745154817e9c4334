internal import InterlockJudge
internal import InterlockCore

/// What happens second by second, all operations taken together.
struct Timeline: Sendable {
    private let start: Instant
    private(set) var points: [TimelinePoint] = []
    private var current = TimelinePoint(second: 0)
    private var latency = LatencyRecorder()

    init(start: Instant) {
        self.start = start
    }

    mutating func offered(at now: Instant) {
        advance(to: now)
        current.offered += 1
    }

    mutating func ended(_ ending: OperationEnding, latency nanoseconds: Int64, at now: Instant) {
        advance(to: now)
        switch ending {
        case .done: current.done += 1
        case .refused: current.refused += 1
        case .failed, .unknown: current.failed += 1
        }
        if ending.isAnswer { latency.record(nanoseconds: nanoseconds) }
    }

    /// Closes the seconds that are over by `now`.
    mutating func advance(to now: Instant) {
        let second = Int((now.nanoseconds - start.nanoseconds) / 1_000_000_000)
        while current.second < second { closeSecond() }
    }

    /// Closes the second that is not over.
    mutating func finish(at now: Instant) {
        advance(to: now)
        guard current.offered + current.done + current.refused + current.failed > 0 else { return }
        closeSecond()
    }

    private mutating func closeSecond() {
        current.p50 = latency.microseconds(atShare: 0.5)
        current.p99 = latency.microseconds(atShare: 0.99)
        current.max = latency.longestMicroseconds
        points.append(current)
        if latency.count > 0 { latency.reset() }
        current = TimelinePoint(second: current.second + 1)
    }
}

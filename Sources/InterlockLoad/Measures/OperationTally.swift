internal import InterlockJudge
internal import InterlockCore

/// What becomes of one kind of operation.
struct OperationTally: Sendable {
    var offered = 0
    var done = 0
    var refused: [String: Int] = [:]
    var failed: [String: Int] = [:]
    var unknown = 0
    var unsent = 0
    var latency = LatencyRecorder()

    mutating func ended(_ ending: OperationEnding, latency nanoseconds: Int64) {
        switch ending {
        case .done: done += 1
        case .refused(let refusal): refused[refusal.name, default: 0] += 1
        case .failed(let code): failed[code, default: 0] += 1
        case .unknown: unknown += 1
        }
        if ending.isAnswer { latency.record(nanoseconds: nanoseconds) }
    }

    var refusedCount: Int { refused.values.reduce(0, +) }
    var failedCount: Int { failed.values.reduce(0, +) }

    func report(of kind: OperationKind) -> OperationReport {
        OperationReport(
            kind: kind, offered: offered, done: done, refused: refused, failed: failed, unknown: unknown, unsent: unsent,
            latency: latency.report)
    }
}

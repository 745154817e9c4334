import Testing

@testable import InterlockJudge

@Suite("Answers")
struct AnswerTests {
    /// An acquire that waits for up to a second; the patience is half a second.
    private func acquire(ended: Double?, _ ending: OperationEnding = .refused(.held)) -> MadeHistory {
        var history = MadeHistory()
        history.add(0, .invoked(client: 1, sidecar: 0, .acquire(lock: 1, mode: .exclusive, ttl: 100, wait: 1000)))
        if let ended { history.add(ended, .ended(client: 1, ending)) }
        return history
    }

    @Test("an answer after the wait and the patience is found", arguments: [(1500.0, true), (1501.0, false)])
    func late(ended: Double, isGood: Bool) {
        #expect(acquire(ended: ended).broken == (isGood ? [] : [.answers]))
    }

    @Test("a connection that is closed in time is an end too")
    func closed() {
        #expect(acquire(ended: 1400, .unknown(reason: "answer-lost")).broken.isEmpty)
    }

    @Test("an operation that never ends is found when the history does", arguments: [(1400.0, true), (1600.0, false)])
    func never(end: Double, isGood: Bool) {
        #expect((acquire(ended: nil).check(until: end).report.violationCount == 0) == isGood)
    }

    @Test("a sidecar that was stopped has the wait and the patience from then on", arguments: [(3999.0, true), (4001.0, false)])
    func stopped(ended: Double, isGood: Bool) {
        var history = acquire(ended: ended)
        history.fault(.pause, sidecar: 0, from: 500, to: 2500)
        #expect(history.broken == (isGood ? [] : [.answers]))
    }

    @Test("that another sidecar or Redis was stopped is no excuse", arguments: [FaultKind.pause, .redisPause])
    func otherStopped(kind: FaultKind) {
        var history = acquire(ended: 2000)
        history.fault(kind, sidecar: kind == .pause ? 1 : nil, from: 500, to: 2500)
        #expect(history.broken == [.answers])
    }
}

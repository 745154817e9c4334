import Testing

@testable import InterlockJudge

@Suite("Answers")
struct AnswerTests {
    /// An acquire that waits for up to a second; the grace period is half a second.
    private func acquire(ended: Double?, _ ending: OperationEnding = .refused(.held)) -> SyntheticHistory {
        var history = SyntheticHistory()
        history.add(
            0,
            .invoked(
                client: 1, sidecar: 0, .acquire(lock: 1, mode: .exclusive, ttlMilliseconds: 100, waitMilliseconds: 1000)
            ))
        if let ended { history.add(ended, .ended(client: 1, ending)) }
        return history
    }

    @Test("An answer later than the wait and the grace period is a violation", arguments: [(1500.0, true), (1501.0, false)])
    func answerLaterThanWaitAndGracePeriodIsViolation(ended: Double, isGood: Bool) {
        #expect(acquire(ended: ended).violatedInvariants == (isGood ? [] : [.answers]))
    }

    @Test("A connection closed in time counts as an end")
    func connectionClosedInTimeCountsAsEnd() {
        #expect(acquire(ended: 1400, .unknown(reason: "answer-lost")).violatedInvariants.isEmpty)
    }

    @Test("An operation without an end is reported at the history's end", arguments: [(1400.0, true), (1600.0, false)])
    func operationWithoutEndIsReportedAtHistoryEnd(end: Double, isGood: Bool) {
        #expect((acquire(ended: nil).check(until: end).report.violationCount == 0) == isGood)
    }

    @Test(
        "The wait and the grace period at a paused sidecar start when it continues", arguments: [(3999.0, true), (4001.0, false)])
    func waitAtPausedSidecarStartsWhenItContinues(ended: Double, isGood: Bool) {
        var history = acquire(ended: ended)
        history.fault(.pause, sidecar: 0, from: 500, to: 2500)
        #expect(history.violatedInvariants == (isGood ? [] : [.answers]))
    }

    @Test("A pause of another sidecar or of Redis is not an excuse", arguments: [FaultKind.pause, .redisPause])
    func otherStopped(kind: FaultKind) {
        var history = acquire(ended: 2000)
        history.fault(kind, sidecar: kind == .pause ? 1 : nil, from: 500, to: 2500)
        #expect(history.violatedInvariants == [.answers])
    }
}

import InterlockCore
import Testing

@testable import InterlockJudge

@Suite("Inconsistent histories")
struct SoundHistoryTests {
    private let take = Operation.take(service: 0, cost: 1, subject: nil, waitMilliseconds: 0)

    private func history() -> SyntheticHistory {
        SyntheticHistory(LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 1000))
    }

    @Test("An end without a beginning is reported")
    func endWithoutBeginningIsReported() {
        var history = history()
        history.add(0, .ended(client: 1, .done(.released)))
        #expect(history.violatedInvariants == [.sound])
    }

    @Test("A client that calls before it has the answer to its last call is reported")
    func callsTwice() {
        var history = history()
        history.add(0, .invoked(client: 1, sidecar: 0, take))
        history.operation(take, client: 1, requested: 1, ended: 2, .refused(.limited(retryAfterMilliseconds: 1)))
        #expect(history.violatedInvariants == [.sound])
    }

    @Test("A result of another kind of operation is reported")
    func wrongEnd() {
        var history = history()
        history.operation(take, requested: 1, ended: 2, .done(.released))
        #expect(history.violatedInvariants == [.sound])
    }

    @Test("A service that is not in the rules is reported", arguments: [-1, 1])
    func unknownService(number: Int) {
        var history = history()
        history.add(0, .breakerSeen(sidecar: 0, service: number, state: .closed, generation: 1, until: nil))
        history.add(1, .invoked(client: 1, sidecar: 0, .permit(service: number, waitMilliseconds: 0)))
        let report = history.check().report
        #expect(report.violations.map(\.invariant) == [.sound, .sound])
    }

    @Test("Faults that end before they begin or begin twice are reported")
    func faults() {
        var history = history()
        history.add(0, .faultEnded(fault: 3))
        history.add(1, .faultBegan(fault: 4, .kill, sidecar: 0))
        history.add(2, .faultBegan(fault: 4, .kill, sidecar: 0))
        #expect(history.check().report.violationCount == 2)
    }

    @Test("Time that goes backward is reported, and the event counts at the latest time")
    func timeGoesBackward() {
        var check = HistoryCheck(rules: history().rules)
        check.observe(HistoryEvent(at: SyntheticHistory.instant(10), .invoked(client: 1, sidecar: 0, take)))
        check.observe(
            HistoryEvent(
                at: SyntheticHistory.instant(9), .ended(client: 1, .refused(.limited(retryAfterMilliseconds: 1)))))
        #expect(check.report.violations.map(\.invariant) == [.sound])
        #expect(check.report.operations == 1)
    }

    @Test("The first hundred violations are listed, and all are counted")
    func manyViolations() {
        var history = history()
        for client in 0..<150 { history.add(Double(client), .ended(client: client, .done(.released))) }
        let report = history.check().report
        #expect(report.violations.count == 100)
        #expect(report.violationCount == 150)
    }

    @Test("Operations, lock cycles and limit decisions are counted")
    func operationsLockCyclesAndLimitDecisionsAreCounted() {
        var history = history()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 1)
        history.release(1, of: 1, requested: 2, answered: 3)
        history.take(requested: 4, answered: 5)
        history.refuse(requested: 6, answered: 7)
        history.permit(1, requested: 8, answered: 9)
        history.operation(take, requested: 10, ended: 11, .failed(code: "UNAVAILABLE"))
        let report = history.check().report
        #expect(report.operations == 6)
        #expect(report.lockGrants == 1)
        #expect(report.limitDecisions == 3)
    }
}

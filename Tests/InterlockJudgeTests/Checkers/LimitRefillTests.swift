import Testing

@testable import InterlockJudge

@Suite("Limits that refill")
struct LimitRefillTests {
    private static let rule = LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 1000)

    /// Returns a history in which calls are refused every `step` milliseconds, for `duration` milliseconds.
    private func refusals(
        _ rule: LimitRule = rule, for duration: Double, every step: Double = 100
    ) -> SyntheticHistory {
        var history = SyntheticHistory(rule)
        history.take(requested: -10, answered: -5)
        var at = 0.0
        while at < duration {
            history.refuse(requested: at, answered: at + 1)
            at += step
        }
        return history
    }

    @Test("A one-second limit that refuses everyone for more than four seconds is a violation")
    func neverRefilled() {
        #expect(refusals(for: 4500).violatedInvariants == [.limitsRefill])
    }

    @Test("A limit that refuses everyone for less time is not reported, because refusals are remembered and answers take time")
    func notYet() {
        #expect(refusals(for: 3900).violatedInvariants.isEmpty)
    }

    @Test("A limit has one window to refill, and a gcra limit the time of its burst")
    func oneWindow() {
        let long = LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 8000)
        #expect(refusals(long, for: 12_000).violatedInvariants == [.limitsRefill])
        #expect(refusals(long, for: 10_900).violatedInvariants.isEmpty)
        let smooth = LimitRule(algorithm: .gcra, limit: 200, windowMilliseconds: 1000, burst: 40)
        #expect(refusals(smooth, for: 1900).violatedInvariants == [.limitsRefill])
        #expect(refusals(smooth, for: 1500).violatedInvariants.isEmpty)
    }

    @Test("One grant in between is enough")
    func oneGrant() {
        var history = refusals(for: 4500)
        history.take(requested: 2050, answered: 2060)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A call without an answer may have been the grant")
    func callWithoutAnswerMayHaveBeenGrant() {
        var history = refusals(for: 4500)
        history.operation(
            .permit(service: 0, waitMilliseconds: 0), requested: 2050, ended: 2060, .unknown(reason: "answer-lost"))
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Clients that call less than once a window prove nothing")
    func rareCalls() {
        #expect(refusals(for: 12_000, every: 1500).violatedInvariants.isEmpty)
    }

    @Test(
        "The time of a fault and of its recovery does not count",
        arguments: FaultKind.allCases.filter { $0 != .clock })
    func timeOfFaultAndOfRecoveryDoesNotCount(kind: FaultKind) {
        var history = refusals(for: 7000)
        history.fault(kind, from: 200, to: 300)
        // A limit that Redis forgot has free capacity once all sidecars have had time to notice.
        #expect(history.violatedInvariants == (kind == .redisWipe ? [.refusals] : []))
    }

    @Test("The time after the recovery counts")
    func afterFault() {
        var history = refusals(for: 9000)
        history.fault(.redisPause, from: 200, to: 300)
        #expect(history.violatedInvariants == [.limitsRefill])
    }

    @Test(
        "A clock jump excuses refusals for the length of the window and no longer",
        arguments: [(4200.0, true), (6000.0, false)])
    func afterJump(length: Double, isGood: Bool) {
        var history = refusals(for: length)
        history.fault(.clock, from: 200, to: 300)
        #expect(history.violatedInvariants == (isGood ? [] : [.limitsRefill]))
    }

    @Test("Long windows are not checked")
    func longWindow() {
        let longRule = LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 20_000)
        #expect(refusals(longRule, for: 100_000).violatedInvariants.isEmpty)
    }

    @Test("With counts per subject, each subject's own grants count")
    func subjects() {
        var history = SyntheticHistory(
            LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 1000, isPerSubject: true))
        for step in 0..<50 {
            history.refuse(subject: 1, requested: Double(step) * 100, answered: Double(step) * 100 + 1)
            history.take(subject: 2, requested: Double(step) * 1000, answered: Double(step) * 1000 + 1)
        }
        #expect(history.violatedInvariants == [.limitsRefill])
    }
}

import Testing

@testable import InterlockJudge

@Suite("Limits that never grant too much")
struct LimitCheckTests {
    private static let sliding = LimitRule(algorithm: .sliding, limit: 5, windowMilliseconds: 1000)
    private static let fixed = LimitRule(algorithm: .fixed, limit: 5, windowMilliseconds: 1000)
    private static let gcra = LimitRule(algorithm: .gcra, limit: 10, windowMilliseconds: 1000, burst: 4)

    /// Makes `count` grants, each answered within 10 ms.
    private func history(
        _ rule: LimitRule, _ count: Int, from start: Double = 0, every step: Double, cost: Int64 = 1,
        whenRedisIsDown: OutagePolicyName = .deny
    ) -> SyntheticHistory {
        var history = SyntheticHistory(rule, whenRedisIsDown: whenRedisIsDown)
        for number in 0..<count {
            let at = start + Double(number) * step
            history.take(cost, requested: at, answered: at + 10)
        }
        return history
    }

    // MARK: Sliding

    @Test("A sliding limit: one grant too many within a window is a violation")
    func slidingExceeded() {
        #expect(history(Self.sliding, 6, every: 197).violatedInvariants == [.limits])
    }

    @Test("A sliding limit: a grant that may be a window after the first is no violation")
    func slidingNotExceeded() {
        #expect(history(Self.sliding, 6, every: 199).violatedInvariants.isEmpty)
    }

    @Test("A call of cost n counts as n calls")
    func callOfCostNCountsAsNCalls() {
        #expect(history(Self.sliding, 3, every: 20, cost: 2).violatedInvariants == [.limits])
        #expect(history(Self.sliding, 2, every: 20, cost: 2).violatedInvariants.isEmpty)
    }

    @Test("A call that waited since before the window may have been granted before it")
    func waited() {
        var history = history(Self.sliding, 5, from: 100, every: 100)
        history.take(requested: -3000, answered: 600)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Calls answered out of order are counted by the time of their request")
    func outOfOrder() {
        var history = SyntheticHistory(Self.sliding)
        for number in 0..<6 { history.take(requested: Double(number), answered: 500 - Double(number)) }
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("A call whose answer was lost is not counted")
    func unknownIsNotCounted() {
        var history = history(Self.sliding, 5, every: 20)
        history.operation(
            .take(service: 0, cost: 1, subject: nil, waitMilliseconds: 0), requested: 200, ended: 210,
            .unknown(reason: "answer-lost"))
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Permits and guarded calls count too")
    func permitsAndGuardedCallsCountToo() {
        var history = history(Self.sliding, 4, every: 20)
        history.permit(1, requested: 200, answered: 210)
        #expect(history.violatedInvariants.isEmpty)
        history.operation(.proxied(service: 0), requested: 300, ended: 310, .done(.passed(status: 200)))
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("Each subject has its own count, and calls without a subject are not counted")
    func eachSubjectHasItsOwnCount() {
        var rule = Self.sliding
        rule.isPerSubject = true
        var history = SyntheticHistory(rule)
        for number in 0..<6 {
            history.take(subject: number % 2, requested: Double(number), answered: Double(number) + 0.5)
            history.permit(PermitNumber(number), requested: Double(number), answered: Double(number) + 0.5)
        }
        #expect(history.violatedInvariants.isEmpty)
        for number in 0..<3 { history.take(subject: 0, requested: 10 + Double(number), answered: 20) }
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("A window of a Redis whose clock is 1 % fast is 1 % shorter")
    func fastRedisClockShortensWindow() {
        var history = history(Self.sliding, 6, every: 197.5)
        #expect(history.violatedInvariants == [.limits])
        history.rules.clockDrift = 0.01
        #expect(history.violatedInvariants.isEmpty)
    }

    // MARK: GCRA

    @Test("A gcra limit: more immediate calls than the burst plus one are a violation", arguments: [(5, true), (6, false)])
    func burst(count: Int, isGood: Bool) {
        #expect(history(Self.gcra, count, every: 1).violatedInvariants == (isGood ? [] : [.limits]))
    }

    @Test("A gcra limit: calls faster than its rate are a violation once the burst is used up")
    func rate() {
        #expect(history(Self.gcra, 100, every: 100).violatedInvariants.isEmpty)
        #expect(history(Self.gcra, 100, every: 95).violatedInvariants == [.limits])
    }

    @Test("A gcra limit: calls that waited are counted from the time of their request")
    func gcraAfterWaiting() {
        var history = SyntheticHistory(Self.gcra)
        // All calls are made at the same time. After the burst, they are granted at the rate.
        for number in 0..<50 { history.take(requested: Double(number) / 100, answered: max(1, Double(number - 4) * 100 + 5)) }
        #expect(history.violatedInvariants.isEmpty)
        for number in 0..<6 { history.take(requested: 3000 + Double(number) / 100, answered: 3010 + Double(number)) }
        #expect(history.violatedInvariants == [.limits])
    }

    // MARK: Fixed

    /// Adds grants whose answers report that their window ends at `end`.
    private func window(_ count: Int, from start: Double, end: Double, in history: inout SyntheticHistory) {
        for number in 0..<count {
            let at = start + Double(number)
            history.take(requested: at, answered: at + 1, limit: 5, resetAfter: Int64(end - at))
        }
    }

    @Test(
        "A fixed limit: one grant too many in a window is a violation, by the end that the answers report",
        arguments: [(5, true), (6, false)])
    func fixedWindow(count: Int, isGood: Bool) {
        var history = SyntheticHistory(Self.fixed)
        window(count, from: 0, end: 1000, in: &history)
        #expect(history.violatedInvariants == (isGood ? [] : [.limits]))
    }

    @Test("A fixed limit: the end of one window and the start of the next may both be full")
    func twoFullWindows() {
        var history = SyntheticHistory(Self.fixed)
        window(5, from: 980, end: 1000, in: &history)
        window(5, from: 1005, end: 2005, in: &history)
        #expect(history.violatedInvariants.isEmpty)
        #expect(history.check().undecidedGrantCount == 0)
    }

    @Test("A fixed limit: late answers are counted in the window that they report")
    func lateAnswers() {
        var history = SyntheticHistory(Self.fixed)
        window(4, from: 900, end: 1000, in: &history)
        window(3, from: 1005, end: 2005, in: &history)
        for number in 0..<2 { history.take(requested: 950, answered: 1020 + Double(number), limit: 5, resetAfter: 40) }
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("A fixed limit: a grant that may belong to either window is not counted")
    func undecided() {
        var history = SyntheticHistory(Self.fixed)
        window(5, from: 0, end: 1000, in: &history)
        history.take(requested: 10, answered: 1500, limit: 5, resetAfter: 990)
        let check = history.check()
        #expect(check.report.violationCount == 0)
        #expect(check.undecidedGrantCount == 1)
    }

    @Test("A fixed limit: more than two windows' grants within one window are a violation, whatever the answers report")
    func threeWindowsInOne() {
        #expect(history(Self.fixed, 10, every: 20).violatedInvariants.isEmpty)
        #expect(history(Self.fixed, 11, every: 20).violatedInvariants == [.limits])
    }

    @Test("A fixed limit: a limit that constantly grants too much is found in the long run")
    func longRun() {
        #expect(history(Self.fixed, 1000, every: 200).violatedInvariants.isEmpty)
        #expect(history(Self.fixed, 1000, every: 190).violatedInvariants == [.limits])
    }

    // MARK: Allowances

    @Test("A wipe allows the limit exactly once more", arguments: [(10, true), (11, false)])
    func wipe(count: Int, isGood: Bool) {
        var history = history(Self.sliding, count, every: 20)
        history.fault(.redisWipe, from: 101, to: 102)
        #expect(history.violatedInvariants == (isGood ? [] : [.limits]))
    }

    @Test("A wipe allows a gcra limit its burst once more", arguments: [(10, true), (11, false)])
    func wipeRestoresGCRABurst(count: Int, isGood: Bool) {
        var history = history(Self.gcra, count, every: 1)
        history.fault(.redisWipe, from: 5.2, to: 5.4)
        #expect(history.violatedInvariants == (isGood ? [] : [.limits]))
    }

    @Test("After a wipe's allowance is used up, the limit holds again")
    func afterWipe() {
        var history = history(Self.sliding, 5, every: 20)
        history.fault(.redisWipe, from: 200, to: 250)
        for number in 0..<5 { history.take(requested: 300 + Double(number), answered: 310) }
        for number in 0..<6 { history.take(requested: 1400 + Double(number), answered: 1410) }
        #expect(history.check().report.violationCount == 1)
    }

    @Test("Without Redis, the sidecars' local quotas are allowed in addition, and no more", arguments: [(9, true), (10, false)])
    func localQuotas(count: Int, isGood: Bool) {
        // Each of the 2 sidecars has a quota of 2 of the limit of 5.
        var history = history(Self.sliding, count, every: 20, whenRedisIsDown: .local)
        history.fault(.redisPause, from: -10, to: nil)
        #expect(history.violatedInvariants == (isGood ? [] : [.limits]))
    }

    @Test("A restarted sidecar gets its local quota again")
    func quotaOfNewProcess() {
        var history = history(Self.sliding, 9, every: 20, whenRedisIsDown: .local)
        history.fault(.redisPause, from: -10, to: nil)
        history.fault(.kill, sidecar: 0, from: 200, to: 250)
        for number in 0..<2 { history.take(requested: 300 + Double(number), answered: 310) }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A service that denies calls without Redis is allowed no local quotas")
    func deny() {
        var history = history(Self.sliding, 6, every: 20, whenRedisIsDown: .deny)
        history.fault(.redisPause, from: -10, to: nil)
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("A service that allows everything without Redis is checked only after the recovery time")
    func allow() {
        var history = history(Self.sliding, 50, every: 20, whenRedisIsDown: .allow)
        history.fault(.partition, sidecar: 0, from: -10, to: 100)
        #expect(history.violatedInvariants.isEmpty)
        for number in 0..<6 { history.take(requested: 5000 + Double(number), answered: 5010) }
        #expect(history.violatedInvariants == [.limits])
    }

    @Test("A sidecar without Redis does not excuse other sidecars")
    func otherSidecar() {
        var history = SyntheticHistory(Self.sliding, whenRedisIsDown: .allow)
        history.fault(.partition, sidecar: 1, from: -10, to: nil)
        for number in 0..<6 { history.take(sidecar: 0, requested: Double(number), answered: 10) }
        #expect(history.violatedInvariants == [.limits])
    }
}

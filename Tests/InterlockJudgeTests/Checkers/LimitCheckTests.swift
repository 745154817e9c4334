import Testing

@testable import InterlockJudge

@Suite("Limits that grant no more than they say")
struct LimitCheckTests {
    private static let sliding = LimitRule(algorithm: .sliding, limit: 5, window: 1000)
    private static let fixed = LimitRule(algorithm: .fixed, limit: 5, window: 1000)
    private static let smooth = LimitRule(algorithm: .gcra, limit: 10, window: 1000, burst: 4)

    /// Makes `count` grants, each answered within 10 ms.
    private func history(
        _ rule: LimitRule, _ count: Int, from start: Double = 0, every step: Double, cost: Int64 = 1,
        whenRedisIsDown: OutagePolicyName = .deny
    ) -> MadeHistory {
        var history = MadeHistory(rule, whenRedisIsDown: whenRedisIsDown)
        for number in 0..<count {
            let at = start + Double(number) * step
            history.take(cost, asked: at, answered: at + 10)
        }
        return history
    }

    // MARK: Sliding

    @Test("a sliding limit: one more than it within a window is found")
    func slidingExceeded() {
        #expect(history(Self.sliding, 6, every: 197).broken == [.limits])
    }

    @Test("a sliding limit: one more that may have been a window after the first is none")
    func slidingKept() {
        #expect(history(Self.sliding, 6, every: 199).broken.isEmpty)
    }

    @Test("costs count as that many calls")
    func costs() {
        #expect(history(Self.sliding, 3, every: 20, cost: 2).broken == [.limits])
        #expect(history(Self.sliding, 2, every: 20, cost: 2).broken.isEmpty)
    }

    @Test("a call that waited from before the window may have been granted before it")
    func waited() {
        var history = history(Self.sliding, 5, from: 100, every: 100)
        history.take(asked: -3000, answered: 600)
        #expect(history.broken.isEmpty)
    }

    @Test("calls that are answered out of order are counted by when they were asked for")
    func outOfOrder() {
        var history = MadeHistory(Self.sliding)
        for number in 0..<6 { history.take(asked: Double(number), answered: 500 - Double(number)) }
        #expect(history.broken == [.limits])
    }

    @Test("a call whose answer was lost is not counted")
    func unknownIsNotCounted() {
        var history = history(Self.sliding, 5, every: 20)
        history.operation(
            .take(service: 0, cost: 1, subject: nil, wait: 0), asked: 200, ended: 210, .unknown(reason: "answer-lost"))
        #expect(history.broken.isEmpty)
    }

    @Test("permits and guarded calls count too")
    func permits() {
        var history = history(Self.sliding, 4, every: 20)
        history.permit(1, asked: 200, answered: 210)
        #expect(history.broken.isEmpty)
        history.operation(.proxied(service: 0), asked: 300, ended: 310, .done(.passed(status: 200)))
        #expect(history.broken == [.limits])
    }

    @Test("each subject has its own count, and one that names none has none")
    func subjects() {
        var rule = Self.sliding
        rule.isPerSubject = true
        var history = MadeHistory(rule)
        for number in 0..<6 {
            history.take(subject: number % 2, asked: Double(number), answered: Double(number) + 0.5)
            history.permit(PermitNumber(number), asked: Double(number), answered: Double(number) + 0.5)
        }
        #expect(history.broken.isEmpty)
        for number in 0..<3 { history.take(subject: 0, asked: 10 + Double(number), answered: 20) }
        #expect(history.broken == [.limits])
    }

    @Test("a window of a Redis whose clock is faster by 1 % is shorter by as much")
    func drift() {
        var history = history(Self.sliding, 6, every: 197.5)
        #expect(history.broken == [.limits])
        history.rules.clockDrift = 0.01
        #expect(history.broken.isEmpty)
    }

    // MARK: Smooth

    @Test("a smooth limit: one more than the burst and one at once is found", arguments: [(5, true), (6, false)])
    func burst(count: Int, isGood: Bool) {
        #expect(history(Self.smooth, count, every: 1).broken == (isGood ? [] : [.limits]))
    }

    @Test("a smooth limit: calls that come faster than its rate are found when the burst is used up")
    func rate() {
        #expect(history(Self.smooth, 100, every: 100).broken.isEmpty)
        #expect(history(Self.smooth, 100, every: 95).broken == [.limits])
    }

    @Test("a smooth limit: calls that waited are counted from when they were asked for")
    func smoothAfterWaiting() {
        var history = MadeHistory(Self.smooth)
        // All calls are made at once, and granted at the rate after the burst.
        for number in 0..<50 { history.take(asked: Double(number) / 100, answered: max(1, Double(number - 4) * 100 + 5)) }
        #expect(history.broken.isEmpty)
        for number in 0..<6 { history.take(asked: 3000 + Double(number) / 100, answered: 3010 + Double(number)) }
        #expect(history.broken == [.limits])
    }

    // MARK: Fixed

    /// Adds grants whose answers report that their window ends at `end`.
    private func window(_ count: Int, from start: Double, end: Double, in history: inout MadeHistory) {
        for number in 0..<count {
            let at = start + Double(number)
            history.take(asked: at, answered: at + 1, limit: 5, resetAfter: Int64(end - at))
        }
    }

    @Test("a fixed limit: one more in a window is found, by the end that the answers tell", arguments: [(5, true), (6, false)])
    func fixedWindow(count: Int, isGood: Bool) {
        var history = MadeHistory(Self.fixed)
        window(count, from: 0, end: 1000, in: &history)
        #expect(history.broken == (isGood ? [] : [.limits]))
    }

    @Test("a fixed limit: the end of one window and the beginning of the next may both be full")
    func twoFullWindows() {
        var history = MadeHistory(Self.fixed)
        window(5, from: 980, end: 1000, in: &history)
        window(5, from: 1005, end: 2005, in: &history)
        #expect(history.broken.isEmpty)
        #expect(history.check().undecidedGrants == 0)
    }

    @Test("a fixed limit: late answers are counted in the window they tell of")
    func lateAnswers() {
        var history = MadeHistory(Self.fixed)
        window(4, from: 900, end: 1000, in: &history)
        window(3, from: 1005, end: 2005, in: &history)
        for number in 0..<2 { history.take(asked: 950, answered: 1020 + Double(number), limit: 5, resetAfter: 40) }
        #expect(history.broken == [.limits])
    }

    @Test("a fixed limit: a grant that may be of either window is not counted")
    func undecided() {
        var history = MadeHistory(Self.fixed)
        window(5, from: 0, end: 1000, in: &history)
        history.take(asked: 10, answered: 1500, limit: 5, resetAfter: 990)
        let check = history.check()
        #expect(check.report.violationCount == 0)
        #expect(check.undecidedGrants == 1)
    }

    @Test("a fixed limit: more than two windows' in less than one are found, whatever the answers tell")
    func threeWindowsInOne() {
        #expect(history(Self.fixed, 10, every: 20).broken.isEmpty)
        #expect(history(Self.fixed, 11, every: 20).broken == [.limits])
    }

    @Test("a fixed limit: one that grants too much all the time is found in the long run")
    func longRun() {
        #expect(history(Self.fixed, 1000, every: 200).broken.isEmpty)
        #expect(history(Self.fixed, 1000, every: 190).broken == [.limits])
    }

    // MARK: Allowances

    @Test("a wipe allows one limit more, and no more than that", arguments: [(10, true), (11, false)])
    func wipe(count: Int, isGood: Bool) {
        var history = history(Self.sliding, count, every: 20)
        history.fault(.redisWipe, from: 101, to: 102)
        #expect(history.broken == (isGood ? [] : [.limits]))
    }

    @Test("a wipe allows a smooth limit its burst once more", arguments: [(10, true), (11, false)])
    func wipeOfSmooth(count: Int, isGood: Bool) {
        var history = history(Self.smooth, count, every: 1)
        history.fault(.redisWipe, from: 5.2, to: 5.4)
        #expect(history.broken == (isGood ? [] : [.limits]))
    }

    @Test("after a wipe's allowance is used up the limit holds again")
    func afterWipe() {
        var history = history(Self.sliding, 5, every: 20)
        history.fault(.redisWipe, from: 200, to: 250)
        for number in 0..<5 { history.take(asked: 300 + Double(number), answered: 310) }
        for number in 0..<6 { history.take(asked: 1400 + Double(number), answered: 1410) }
        #expect(history.check().report.violationCount == 1)
    }

    @Test("without Redis the sidecars' shares come on top, and no more", arguments: [(9, true), (10, false)])
    func shares(count: Int, isGood: Bool) {
        // A limit of 5 among 2 sidecars: 2 each.
        var history = history(Self.sliding, count, every: 20, whenRedisIsDown: .local)
        history.fault(.redisPause, from: -10, to: nil)
        #expect(history.broken == (isGood ? [] : [.limits]))
    }

    @Test("a sidecar that was killed has its share again")
    func shareOfNewProcess() {
        var history = history(Self.sliding, 9, every: 20, whenRedisIsDown: .local)
        history.fault(.redisPause, from: -10, to: nil)
        history.fault(.kill, sidecar: 0, from: 200, to: 250)
        for number in 0..<2 { history.take(asked: 300 + Double(number), answered: 310) }
        #expect(history.broken.isEmpty)
    }

    @Test("a service that denies without Redis has no such allowance")
    func deny() {
        var history = history(Self.sliding, 6, every: 20, whenRedisIsDown: .deny)
        history.fault(.redisPause, from: -10, to: nil)
        #expect(history.broken == [.limits])
    }

    @Test("a service that allows everything without Redis is not judged then, and is when it has recovered")
    func allow() {
        var history = history(Self.sliding, 50, every: 20, whenRedisIsDown: .allow)
        history.fault(.partition, sidecar: 0, from: -10, to: 100)
        #expect(history.broken.isEmpty)
        for number in 0..<6 { history.take(asked: 5000 + Double(number), answered: 5010) }
        #expect(history.broken == [.limits])
    }

    @Test("a sidecar that is cut off excuses no other one")
    func otherSidecar() {
        var history = MadeHistory(Self.sliding, whenRedisIsDown: .allow)
        history.fault(.partition, sidecar: 1, from: -10, to: nil)
        for number in 0..<6 { history.take(sidecar: 0, asked: Double(number), answered: 10) }
        #expect(history.broken == [.limits])
    }
}

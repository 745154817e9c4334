import Testing

@testable import InterlockJudge

@Suite("Limits that refill")
struct LimitRefillTests {
    private static let rule = LimitRule(algorithm: .fixed, limit: 5, window: 1000)

    /// Calls that are refused every `step` milliseconds for `duration`.
    private func refused(_ rule: LimitRule = rule, for duration: Double, every step: Double = 100) -> SyntheticHistory {
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
        #expect(refused(for: 4500).broken == [.limitsRefill])
    }

    @Test("A limit that refuses everyone for less time is not reported, because refusals are remembered and answers take time")
    func notYet() {
        #expect(refused(for: 3900).broken.isEmpty)
    }

    @Test("A limit has one window to refill, and a gcra limit the time of its burst")
    func oneWindow() {
        let long = LimitRule(algorithm: .fixed, limit: 5, window: 8000)
        #expect(refused(long, for: 12_000).broken == [.limitsRefill])
        #expect(refused(long, for: 10_900).broken.isEmpty)
        let smooth = LimitRule(algorithm: .gcra, limit: 200, window: 1000, burst: 40)
        #expect(refused(smooth, for: 1900).broken == [.limitsRefill])
        #expect(refused(smooth, for: 1500).broken.isEmpty)
    }

    @Test("One grant in between is enough")
    func oneGrant() {
        var history = refused(for: 4500)
        history.take(requested: 2050, answered: 2060)
        #expect(history.broken.isEmpty)
    }

    @Test("A call without an answer may have been the grant")
    func unknown() {
        var history = refused(for: 4500)
        history.operation(.permit(service: 0, wait: 0), requested: 2050, ended: 2060, .unknown(reason: "answer-lost"))
        #expect(history.broken.isEmpty)
    }

    @Test("Clients that call less than once a window prove nothing")
    func rareCalls() {
        #expect(refused(for: 12_000, every: 1500).broken.isEmpty)
    }

    @Test(
        "The time of a fault and of its recovery does not count",
        arguments: FaultKind.allCases.filter { $0 != .clock })
    func faults(kind: FaultKind) {
        var history = refused(for: 7000)
        history.fault(kind, from: 200, to: 300)
        // A limit that Redis forgot has free capacity once all sidecars have had time to notice.
        #expect(history.broken == (kind == .redisWipe ? [.refusals] : []))
    }

    @Test("The time after the recovery counts")
    func afterFault() {
        var history = refused(for: 9000)
        history.fault(.redisPause, from: 200, to: 300)
        #expect(history.broken == [.limitsRefill])
    }

    @Test(
        "A clock jump excuses refusals for the length of the window and no longer",
        arguments: [(4200.0, true), (6000.0, false)])
    func afterJump(length: Double, isGood: Bool) {
        var history = refused(for: length)
        history.fault(.clock, from: 200, to: 300)
        #expect(history.broken == (isGood ? [] : [.limitsRefill]))
    }

    @Test("Long windows are not checked")
    func longWindow() {
        #expect(refused(LimitRule(algorithm: .fixed, limit: 5, window: 20_000), for: 100_000).broken.isEmpty)
    }

    @Test("With counts per subject, each subject's own grants count")
    func subjects() {
        var history = SyntheticHistory(LimitRule(algorithm: .fixed, limit: 5, window: 1000, isPerSubject: true))
        for step in 0..<50 {
            history.refuse(subject: 1, requested: Double(step) * 100, answered: Double(step) * 100 + 1)
            history.take(subject: 2, requested: Double(step) * 1000, answered: Double(step) * 1000 + 1)
        }
        #expect(history.broken == [.limitsRefill])
    }
}

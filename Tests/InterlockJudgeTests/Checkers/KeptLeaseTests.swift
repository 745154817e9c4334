import InterlockCore
import InterlockJudge
import Testing

@Suite("Leases are kept until they end")
struct KeptLeaseTests {
    /// A lease of one second, granted at 10 ms, and the answer to its holder's call at 500 ms.
    private static func history(_ ending: OperationEnding, keepsLocks: Bool = false, failoverAt: Double? = nil) -> CheckReport {
        var history = SyntheticHistory()
        history.rules.keepsLocks = keepsLocks
        if let failoverAt {
            history.add(failoverAt, .faultBegan(fault: 3, .failover, sidecar: nil))
            history.add(failoverAt + 100, .faultEnded(fault: 3))
        }
        history.grant(1, to: 1, fence: 7, requested: 5, answered: 10)
        history.renew(1, of: 1, requested: 490, answered: 500, ending: ending)
        return history.check().report
    }

    @Test("Losing a lease before its end is a violation")
    func losingLeaseBeforeEndIsViolation() {
        let report = Self.history(.refused(.lost))
        #expect(report.violations.map(\.invariant) == [.keptLeases])
        #expect(report.violations.first?.finding == "lock 1: client 1 lost lease 1, which had 505.0 ms left")
        #expect(Self.history(.done(.renewed(validForMilliseconds: 1000))).violations.isEmpty)
        #expect(Self.history(.failed(code: "UNAVAILABLE")).violations.isEmpty)
    }

    @Test("A failover excuses a lost lease, which is counted, unless all replicas had it")
    func failoverExcusesLostLease() {
        let excused = Self.history(.refused(.lost), failoverAt: 200)
        #expect(excused.violations.isEmpty)
        #expect(excused.lostLeaseCount == 1)
        let lost = excused.lostLeases.first
        #expect(lost?.lease == 1 && lost?.fault == 3)
        #expect(lost?.grantedAfterMilliseconds == -190 && lost?.remainingMilliseconds == 505)
        let kept = Self.history(.refused(.lost), keepsLocks: true, failoverAt: 200)
        #expect(kept.violations.map(\.invariant) == [.keptLeases])
        #expect(kept.lostLeaseCount == 0)
    }

    @Test("A failover is not blamed for a loss that another fault may have caused", arguments: [FaultKind.redisWipe, .clock])
    func otherFaults(kind: FaultKind) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 7, requested: 5, answered: 10)
        history.add(200, .faultBegan(fault: 3, .failover, sidecar: nil))
        history.add(300, .faultEnded(fault: 3))
        history.add(310, .faultBegan(fault: 4, kind, sidecar: nil))
        history.add(320, .faultEnded(fault: 4))
        history.renew(1, of: 1, requested: 490, answered: 500, ending: .refused(.lost))
        let report = history.check().report
        #expect(report.violations.isEmpty)
        #expect(report.lostLeaseCount == 0)
    }

    @Test("A lease that has ended or was released is not lost")
    func ended() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 7, requested: 5, answered: 10)
        history.renew(1, of: 1, requested: 1100, answered: 1110, ending: .refused(.lost))
        history.grant(2, to: 2, fence: 8, requested: 1200, answered: 1210)
        history.operation(.release(lock: 1, lease: 2), client: 2, requested: 1220, ended: 1230, .failed(code: "UNAVAILABLE"))
        history.operation(.release(lock: 1, lease: 2), client: 2, requested: 1240, ended: 1250, .refused(.lost))
        history.grant(3, to: 3, fence: 9, requested: 1300, answered: 1310)
        history.link(3, of: 3, ttl: 1000, .began, at: 1311)
        history.link(3, of: 3, ttl: 1000, .lost, at: 1400)
        history.renew(3, of: 3, requested: 1410, answered: 1420, ending: .refused(.lost))
        #expect(history.check().report.violations.isEmpty)
    }

    @Test("A first release that finds the lease lost is a violation too")
    func firstReleaseThatFindsLeaseLostIsViolationToo() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 7, requested: 5, answered: 10)
        history.operation(.release(lock: 1, lease: 1), client: 1, requested: 490, ended: 500, .refused(.lost))
        #expect(history.check().report.violations.map(\.invariant) == [.keptLeases])
        history.add(200, .faultBegan(fault: 3, .failover, sidecar: nil))
        history.add(300, .faultEnded(fault: 3))
        #expect(history.check().report.lostLeases.map(\.fault) == [3])
    }
}

import InterlockCore
import InterlockJudge
import Testing

@Suite("Leases and quorum servers that restart empty")
struct QuorumCopiesTests {
    /// A history in which client 1 renews its lease `renewals` times, a server restarts empty, client 2 is granted the
    /// lock, and client 1 then learns from a renewal or its release that its lease is lost.
    private func history(renewals: Int, calmFrom: Double = 0, isReleased: Bool = false) -> SyntheticHistory {
        var history = SyntheticHistory()
        history.add(calmFrom, .faultBegan(fault: 1, .quorumServer, sidecar: nil))
        history.add(calmFrom + 10, .faultEnded(fault: 1))
        history.grant(1, to: 1, fence: 7, requested: 3100, answered: 3110, valid: 60_000)
        for number in 0..<renewals {
            let requested = 3200 + Double(number) * 100
            history.renew(1, of: 1, requested: requested, answered: requested + 10, valid: 60_000)
        }
        history.add(8000, .faultBegan(fault: 2, .quorumRestart, sidecar: nil))
        history.add(8100, .faultEnded(fault: 2))
        history.grant(2, to: 2, fence: 8, requested: 8200, answered: 8210)
        if isReleased {
            history.release(1, of: 1, requested: 8300, answered: 8310, ending: .refused(.lost))
        } else {
            history.renew(1, of: 1, requested: 8300, answered: 8310, ending: .refused(.lost))
        }
        return history
    }

    @Test("A lease renewed twice since the last fault survives a restart and has no second holder")
    func twiceRenewedLeaseSurvivesRestart() {
        #expect(history(renewals: 2).violatedInvariants == [.exclusion, .keptLeases])
        #expect(history(renewals: 2, isReleased: true).violatedInvariants == [.exclusion, .keptLeases])
    }

    @Test("A lease that was renewed only once, or while sidecars may not have reconnected, may be lost")
    func onceRenewedLeaseMayBeLost() {
        #expect(history(renewals: 1).violatedInvariants.isEmpty)
        #expect(history(renewals: 1, isReleased: true).violatedInvariants.isEmpty)
        #expect(history(renewals: 2, calmFrom: 1000).violatedInvariants.isEmpty)
    }
}

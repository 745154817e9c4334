import InterlockJudge
import Testing

@Suite("Fenced writes")
struct FencedWriteTests {
    /// A lease of client 1 that ends at 100, and a lease of client 2 that begins at 150.
    private func twoLeases(fences: (Int64, Int64) = (1, 2)) -> SyntheticHistory {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: fences.0, requested: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: fences.1, requested: 140, answered: 150)
        return history
    }

    @Test("A stale write accepted after a later lease's write is a violation, whatever the fences")
    func staleWriteTaken() {
        var history = twoLeases(fences: (5, 5))
        history.write(2, of: 2, fence: 5, at: 200)
        history.write(1, of: 1, fence: 5, at: 210)
        #expect(history.violatedInvariants == [.fencedWrites, .risingFences])
    }

    @Test("A stale write before the later lease's write is accepted")
    func staleWriteBeforeLaterOne() {
        var history = twoLeases()
        history.write(1, of: 1, fence: 1, at: 190)
        history.write(2, of: 2, fence: 2, at: 200)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A rejected stale write is counted")
    func staleWriteRefused() {
        var history = twoLeases()
        history.write(2, of: 2, fence: 2, at: 200)
        history.write(1, of: 1, fence: 1, at: 210, isAccepted: false)
        let report = history.check().report
        #expect(report.violationCount == 0)
        #expect(report.staleWritesRefused == 1)
    }

    @Test("Rejecting the holder's write because of an earlier lease's write is a violation")
    func goodWriteRefused() {
        var history = twoLeases(fences: (7, 3))
        history.write(1, of: 1, fence: 7, at: 50)
        history.write(2, of: 2, fence: 3, at: 200, isAccepted: false)
        #expect(history.violatedInvariants == [.fencedWrites, .risingFences])
    }

    @Test("Rejecting a write for no reason is a violation")
    func firstWriteRefused() {
        var history = twoLeases()
        history.write(2, of: 2, fence: 2, at: 200, isAccepted: false)
        #expect(history.violatedInvariants == [.fencedWrites])
    }

    @Test("A write after the end of its lease may be rejected")
    func lateWriteRefused() {
        var history = twoLeases()
        history.write(1, of: 1, fence: 1, at: 120, isAccepted: false)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Two leases in unknown order may write in any order")
    func unknownOrder() {
        var history = SyntheticHistory()
        // The answer arrives after the lease's end, so the other lease may have been granted before it or after.
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 300, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 1, answered: 310, valid: 200)
        history.write(2, of: 2, fence: 2, at: 320)
        history.write(1, of: 1, fence: 1, at: 330)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A holder that lost its lock in a wipe may be rejected because a later lease has written")
    func refusedAfterWipe() {
        var history = SyntheticHistory()
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 60)
        history.grant(2, to: 2, fence: 2, requested: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50)
        history.write(1, of: 1, fence: 1, at: 70, isAccepted: false)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Accepting a stale write after a wipe is a violation")
    func staleWriteAfterWipe() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5)
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, requested: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50)
        history.write(1, of: 1, fence: 1, at: 70)
        #expect(history.violatedInvariants == [.fencedWrites])
    }

    @Test("A wipe and a clock set back together excuse an accepted stale write")
    func wipeAndClockExcuseStaleWrite() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 9, requested: 0, answered: 5)
        history.write(1, of: 1, fence: 9, at: 6)
        history.fault(.clock, from: 7, to: nil)
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, requested: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50, isAccepted: false)
        history.write(1, of: 1, fence: 9, at: 70)
        #expect(history.violatedInvariants.isEmpty)
    }
}

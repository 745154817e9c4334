import InterlockJudge
import Testing

@Suite("Fenced writes")
struct FencedWriteTests {
    /// A lease of client 1 that is over at 100, and one of client 2 from 150 on.
    private func twoLeases(fences: (Int64, Int64) = (1, 2)) -> MadeHistory {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: fences.0, asked: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: fences.1, asked: 140, answered: 150)
        return history
    }

    @Test("a stale write that is taken after a later lease's is found, whatever the fences say")
    func staleWriteTaken() {
        var history = twoLeases(fences: (5, 5))
        history.write(2, of: 2, fence: 5, at: 200)
        history.write(1, of: 1, fence: 5, at: 210)
        #expect(history.broken == [.fencedWrites, .risingFences])
    }

    @Test("a stale write before the later lease's is taken")
    func staleWriteBeforeLaterOne() {
        var history = twoLeases()
        history.write(1, of: 1, fence: 1, at: 190)
        history.write(2, of: 2, fence: 2, at: 200)
        #expect(history.broken.isEmpty)
    }

    @Test("a stale write that is refused is counted")
    func staleWriteRefused() {
        var history = twoLeases()
        history.write(2, of: 2, fence: 2, at: 200)
        history.write(1, of: 1, fence: 1, at: 210, isAccepted: false)
        let report = history.check().report
        #expect(report.violationCount == 0)
        #expect(report.staleWritesRefused == 1)
    }

    @Test("a write of who holds the lock that is refused because of a lower lease's is found")
    func goodWriteRefused() {
        var history = twoLeases(fences: (7, 3))
        history.write(1, of: 1, fence: 7, at: 50)
        history.write(2, of: 2, fence: 3, at: 200, isAccepted: false)
        #expect(history.broken == [.fencedWrites, .risingFences])
    }

    @Test("a write that is refused for no reason is found")
    func firstWriteRefused() {
        var history = twoLeases()
        history.write(2, of: 2, fence: 2, at: 200, isAccepted: false)
        #expect(history.broken == [.fencedWrites])
    }

    @Test("who writes after the end of its lease may be refused")
    func lateWriteRefused() {
        var history = twoLeases()
        history.write(1, of: 1, fence: 1, at: 120, isAccepted: false)
        #expect(history.broken.isEmpty)
    }

    @Test("two leases of which nobody knows which was first write in any order")
    func unknownOrder() {
        var history = MadeHistory()
        // The answer arrives after the lease's end, so the other lease may have been granted before it or after.
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 300, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 1, answered: 310, valid: 200)
        history.write(2, of: 2, fence: 2, at: 320)
        history.write(1, of: 1, fence: 1, at: 330)
        #expect(history.broken.isEmpty)
    }

    @Test("who lost its lock in a wipe may be refused, because a later lease has written")
    func refusedAfterWipe() {
        var history = MadeHistory()
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 60)
        history.grant(2, to: 2, fence: 2, asked: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50)
        history.write(1, of: 1, fence: 1, at: 70, isAccepted: false)
        #expect(history.broken.isEmpty)
    }

    @Test("a stale write after a wipe is still refused: taken, it is found")
    func staleWriteAfterWipe() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5)
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, asked: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50)
        history.write(1, of: 1, fence: 1, at: 70)
        #expect(history.broken == [.fencedWrites])
    }

    @Test("a wipe together with a clock set back is the one exception")
    func wipeAndClock() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 9, asked: 0, answered: 5)
        history.write(1, of: 1, fence: 9, at: 6)
        history.fault(.clock, from: 7, to: nil)
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, asked: 25, answered: 30)
        history.write(2, of: 2, fence: 2, at: 50, isAccepted: false)
        history.write(1, of: 1, fence: 9, at: 70)
        #expect(history.broken.isEmpty)
    }
}

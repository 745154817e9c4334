import InterlockJudge
import Testing

@Suite("Rising fences")
struct RisingFenceTests {
    @Test("A fence below that of an earlier grant is a violation")
    func lowerFence() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.grant(2, to: 2, fence: 9, requested: 100, answered: 102)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("A repeated fence of an earlier grant is a violation")
    func equalFence() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.grant(2, to: 2, fence: 10, requested: 100, answered: 102)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("Two leases with the same fence are a violation, whichever was requested first")
    func equalFencesOfConcurrentGrants() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 20, mode: .shared)
        history.grant(2, to: 2, fence: 10, requested: 1, answered: 21, mode: .shared)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("An exclusive lease granted after a wait has a higher fence than all leases granted during the wait")
    func lowerFenceAfterWaiting() {
        var history = SyntheticHistory()
        history.grant(2, to: 2, fence: 9, requested: 1, answered: 80)
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 20)
        history.release(1, of: 1, requested: 50, answered: 51)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("A fence that is higher by one is sufficient")
    func higherByOne() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.grant(2, to: 2, fence: 11, requested: 100, answered: 102)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Readers that acquire at the same time may be answered in either order")
    func concurrentReaders() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 11, requested: 0, answered: 20, mode: .shared)
        history.grant(2, to: 2, fence: 10, requested: 1, answered: 21, mode: .shared)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A reader that acquires after another was answered has a higher fence")
    func laterReader() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 11, requested: 0, answered: 20, mode: .shared)
        history.grant(2, to: 2, fence: 10, requested: 21, answered: 22, mode: .shared)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("An owner that acquires again keeps its fence")
    func sameOwnerAgain() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, mode: .shared)
        history.grant(2, to: 2, fence: 11, requested: 3, answered: 4, mode: .shared)
        history.grant(1, to: 1, fence: 10, requested: 5, answered: 6, mode: .shared)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("An owner whose first answer was lost may have been granted the lock then")
    func retryAfterLostAnswer() {
        var history = SyntheticHistory()
        history.operation(
            .acquire(lock: 1, mode: .shared, ttlMilliseconds: 1000, waitMilliseconds: 0), client: 1, requested: 0,
            ended: 2,
            .unknown(reason: "answer-lost"))
        history.grant(2, to: 2, fence: 11, requested: 3, answered: 4, mode: .shared)
        history.grant(1, to: 1, fence: 10, requested: 5, answered: 6, mode: .shared)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Other locks have their own fences")
    func otherLock() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2)
        history.operation(
            .acquire(lock: 2, mode: .exclusive, ttlMilliseconds: 1000, waitMilliseconds: 0), client: 2, requested: 5,
            ended: 6,
            .done(.granted(lease: 2, fence: 3, validForMilliseconds: 990)))
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Fences rise even after a wipe")
    func fencesRiseEvenAfterWipe() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.fault(.redisWipe, from: 10, to: 20)
        history.grant(2, to: 2, fence: 9, requested: 100, answered: 102)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("Fences rise even after the clock was set back")
    func fencesRiseEvenAfterClockWasSetBack() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.fault(.clock, from: 10, to: 20)
        history.grant(2, to: 2, fence: 9, requested: 100, answered: 102)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("Fences may fall once after a wipe and a clock set back, and rise again afterwards", arguments: [true, false])
    func wipeAndClock(isWipedFirst: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 50)
        history.fault(isWipedFirst ? .redisWipe : .clock, from: 10, to: 20)
        history.fault(isWipedFirst ? .clock : .redisWipe, from: 30, to: 40)
        history.grant(2, to: 2, fence: 5, requested: 100, answered: 102, valid: 50)
        history.grant(3, to: 3, fence: 6, requested: 200, answered: 202, valid: 50)
        #expect(history.violatedInvariants.isEmpty)
        history.grant(4, to: 4, fence: 5, requested: 300, answered: 302, valid: 50)
        #expect(history.violatedInvariants == [.risingFences])
    }

    @Test("A request from before a wipe and a clock set back is excused even if another reader is answered first")
    func requestedBeforeWipeAndClock() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 5, mode: .shared)
        history.fault(.redisWipe, from: 10, to: 20)
        history.fault(.clock, from: 30, to: 40)
        history.grant(2, to: 2, fence: 6, requested: 50, answered: 60, mode: .shared)
        history.grant(3, to: 3, fence: 5, requested: 5, answered: 61, mode: .shared)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A fence lost in a failover with the clock set back may be repeated, even after a higher one")
    func fenceAfterFailover() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 10, requested: 0, answered: 2, valid: 5, mode: .shared)
        history.fault(.clock, from: 10, to: 20)
        history.fault(.failover, from: 30, to: 40)
        history.grant(3, to: 3, fence: 11, requested: 50, answered: 60, mode: .shared)
        history.grant(2, to: 2, fence: 10, requested: 50, answered: 61, mode: .shared)
        #expect(history.violatedInvariants.isEmpty)
        history.grant(4, to: 4, fence: 11, requested: 70, answered: 71, mode: .shared)
        #expect(history.violatedInvariants == [.risingFences])
    }
}

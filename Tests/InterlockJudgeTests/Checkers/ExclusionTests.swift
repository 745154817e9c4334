import Testing

@testable import InterlockJudge

@Suite("Exclusion")
struct ExclusionTests {
    @Test("A lease granted a millisecond before another's end overlaps with it")
    func overlapByOneMillisecond() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 50, answered: 99)
        #expect(history.violatedInvariants == [.exclusion])
    }

    @Test("A lease granted at another's end does not overlap")
    func handOverAtTheEnd() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 50, answered: 100)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A client holds nothing once it has requested the release")
    func releasedWhenInvoked() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5)
        history.release(1, of: 1, requested: 50, answered: 90)
        history.grant(2, to: 2, fence: 2, requested: 20, answered: 51)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A renewed lease is held longer")
    func renewedLeaseIsHeldLonger() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, requested: 60, answered: 65, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 70, answered: 159)
        #expect(history.violatedInvariants == [.exclusion])
    }

    @Test("A renewal without an answer does not extend a lease")
    func unansweredRenewalDoesNotExtendLease() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, requested: 60, answered: 65, valid: 100, ending: .unknown(reason: "answer-lost"))
        history.grant(2, to: 2, fence: 2, requested: 70, answered: 101)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A lost lease is not held")
    func lostLeaseIsNotHeld() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, requested: 60, answered: 65, valid: 100, ending: .refused(.lost))
        history.grant(2, to: 2, fence: 2, requested: 70, answered: 80)
        #expect(history.violatedInvariants == [.keptLeases])
    }

    @Test("A renewal that shortens a lease applies when it is requested")
    func shortened() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 1000)
        history.renew(1, of: 1, requested: 60, answered: 400, valid: 50, ending: .unknown(reason: "answer-lost"))
        history.grant(2, to: 2, fence: 2, requested: 110, answered: 120)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A renewal granted after the lease ended and another began is a violation")
    func renewedAnew() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 150, answered: 160)
        history.renew(1, of: 1, requested: 200, answered: 205, valid: 100)
        #expect(history.violatedInvariants == [.exclusion])
    }

    @Test("A client that waited longer than its lease is valid holds nothing until it has renewed")
    func waitedTooLong() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 200, valid: 100)
        history.grant(2, to: 2, fence: 2, requested: 150, answered: 260, valid: 10)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A writer and a reader at the same time are a violation, whichever is first", arguments: [true, false])
    func writerWithReader(isWriterFirst: Bool) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, mode: isWriterFirst ? .exclusive : .shared)
        history.grant(2, to: 2, fence: 2, requested: 10, answered: 15, mode: isWriterFirst ? .shared : .exclusive)
        #expect(history.violatedInvariants == [.exclusion])
    }

    @Test("A semaphore slot and a reader at the same time are a violation")
    func slotWithReader() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5, mode: .shared)
        history.grant(2, to: 2, fence: 2, requested: 10, answered: 15, mode: .permits(3))
        #expect(history.violatedInvariants == [.exclusion])
    }

    @Test("Any number of readers may share a lock")
    func anyNumberOfReadersMayShareLock() {
        var history = SyntheticHistory()
        for reader in 1...200 {
            history.grant(
                Int64(reader), to: reader, fence: Int64(reader), requested: Double(reader), answered: Double(reader) + 0.5,
                mode: .shared)
        }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A semaphore of three may have three holders but not four", arguments: [(3, true), (4, false)])
    func semaphoreOfThreeMayHaveThreeHolders(holders: Int, isGood: Bool) {
        var history = SyntheticHistory()
        for holder in 1...holders {
            history.grant(
                Int64(holder), to: holder, fence: Int64(holder), requested: Double(holder), answered: Double(holder) + 0.5,
                mode: .permits(3))
        }
        #expect(history.violatedInvariants == (isGood ? [] : [.exclusion]))
    }

    @Test("An expired slot is free")
    func expiredSlot() {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 1, valid: 50, mode: .permits(2))
        history.grant(2, to: 2, fence: 2, requested: 2, answered: 3, mode: .permits(2))
        history.grant(3, to: 3, fence: 3, requested: 40, answered: 50, mode: .permits(2))
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A wipe or a clock jump during the older lease excuses an overlap", arguments: [FaultKind.redisWipe, .clock])
    func wipeOrClockJumpDuringOlderLeaseExcusesOverlap(kind: FaultKind) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5)
        history.fault(kind, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, requested: 30, answered: 35)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A wipe before both leases is not an excuse")
    func earlierWipeIsNoExcuse() {
        var history = SyntheticHistory()
        history.fault(.redisWipe, from: 0, to: 20)
        history.grant(1, to: 1, fence: 1, requested: 21, answered: 25)
        history.grant(2, to: 2, fence: 2, requested: 30, answered: 35)
        #expect(history.violatedInvariants == [.exclusion])
    }

    // `QuorumCopiesTests` covers the leases that may be lost when a quorum's server restarts empty.
    @Test(
        "No other fault excuses an overlap",
        arguments: FaultKind.allCases.filter { !$0.mayCause(.lostExclusivity) && !$0.mayCause(.forgottenVotes) })
    func notExcused(kind: FaultKind) {
        var history = SyntheticHistory()
        history.grant(1, to: 1, fence: 1, requested: 0, answered: 5)
        history.fault(kind, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, requested: 30, answered: 35)
        #expect(history.violatedInvariants == [.exclusion])
    }
}

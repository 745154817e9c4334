import Testing

@testable import InterlockJudge

@Suite("Exclusion")
struct ExclusionTests {
    @Test("a lease that is answered a millisecond before another's time is over overlaps with it")
    func overlapByOneMillisecond() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 50, answered: 99)
        #expect(history.broken == [.exclusion])
    }

    @Test("a lease that is answered when another's time is over does not overlap")
    func handOverAtTheEnd() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 50, answered: 100)
        #expect(history.broken.isEmpty)
    }

    @Test("from the moment it asks for the release a client holds nothing")
    func releasedWhenInvoked() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5)
        history.release(1, of: 1, asked: 50, answered: 90)
        history.grant(2, to: 2, fence: 2, asked: 20, answered: 51)
        #expect(history.broken.isEmpty)
    }

    @Test("a renewed lease is held for longer")
    func renewed() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, asked: 60, answered: 65, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 70, answered: 159)
        #expect(history.broken == [.exclusion])
    }

    @Test("a renewal whose answer was lost holds nothing longer")
    func renewalWithoutAnswer() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, asked: 60, answered: 65, valid: 100, ending: .unknown(reason: "answer-lost"))
        history.grant(2, to: 2, fence: 2, asked: 70, answered: 101)
        #expect(history.broken.isEmpty)
    }

    @Test("a lease that is lost is held no longer")
    func lost() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.renew(1, of: 1, asked: 60, answered: 65, valid: 100, ending: .refused(.lost))
        history.grant(2, to: 2, fence: 2, asked: 70, answered: 80)
        #expect(history.broken == [.keptLeases])
    }

    @Test("a renewal that makes a lease shorter does so when it is asked for")
    func shortened() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 1000)
        history.renew(1, of: 1, asked: 60, answered: 400, valid: 50, ending: .unknown(reason: "answer-lost"))
        history.grant(2, to: 2, fence: 2, asked: 110, answered: 120)
        #expect(history.broken.isEmpty)
    }

    @Test("a renewal that is granted after the lease was over and another's began is found")
    func renewedAnew() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 150, answered: 160)
        history.renew(1, of: 1, asked: 200, answered: 205, valid: 100)
        #expect(history.broken == [.exclusion])
    }

    @Test("who waited for longer than its lease is valid holds nothing until it has renewed")
    func waitedTooLong() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 200, valid: 100)
        history.grant(2, to: 2, fence: 2, asked: 150, answered: 260, valid: 10)
        #expect(history.broken.isEmpty)
    }

    @Test("a writer with a reader is found, whoever comes first", arguments: [true, false])
    func writerWithReader(isWriterFirst: Bool) {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, mode: isWriterFirst ? .exclusive : .shared)
        history.grant(2, to: 2, fence: 2, asked: 10, answered: 15, mode: isWriterFirst ? .shared : .exclusive)
        #expect(history.broken == [.exclusion])
    }

    @Test("a place of a semaphore with a reader is found")
    func placeWithReader() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5, mode: .shared)
        history.grant(2, to: 2, fence: 2, asked: 10, answered: 15, mode: .permits(3))
        #expect(history.broken == [.exclusion])
    }

    @Test("any number of readers hold a lock together")
    func readers() {
        var history = MadeHistory()
        for reader in 1...200 {
            history.grant(
                Int64(reader), to: reader, fence: Int64(reader), asked: Double(reader), answered: Double(reader) + 0.5,
                mode: .shared)
        }
        #expect(history.broken.isEmpty)
    }

    @Test("a semaphore of three has three holders and not four", arguments: [(3, true), (4, false)])
    func semaphore(holders: Int, isGood: Bool) {
        var history = MadeHistory()
        for holder in 1...holders {
            history.grant(
                Int64(holder), to: holder, fence: Int64(holder), asked: Double(holder), answered: Double(holder) + 0.5,
                mode: .permits(3))
        }
        #expect(history.broken == (isGood ? [] : [.exclusion]))
    }

    @Test("a place that has lapsed is free")
    func lapsedPlace() {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 1, valid: 50, mode: .permits(2))
        history.grant(2, to: 2, fence: 2, asked: 2, answered: 3, mode: .permits(2))
        history.grant(3, to: 3, fence: 3, asked: 40, answered: 50, mode: .permits(2))
        #expect(history.broken.isEmpty)
    }

    @Test("a wipe or a jump of the clock in the elder's life excuses an overlap", arguments: [FaultKind.redisWipe, .clock])
    func excused(kind: FaultKind) {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5)
        history.fault(kind, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, asked: 30, answered: 35)
        #expect(history.broken.isEmpty)
    }

    @Test("a wipe before both leases excuses nothing")
    func wipeBefore() {
        var history = MadeHistory()
        history.fault(.redisWipe, from: 0, to: 20)
        history.grant(1, to: 1, fence: 1, asked: 21, answered: 25)
        history.grant(2, to: 2, fence: 2, asked: 30, answered: 35)
        #expect(history.broken == [.exclusion])
    }

    // `QuorumCopiesTests` covers the leases that may be lost when a quorum's server restarts empty.
    @Test(
        "no other fault excuses an overlap",
        arguments: FaultKind.allCases.filter { !$0.mayCause(.lostExclusivity) && !$0.mayCause(.forgottenVotes) })
    func notExcused(kind: FaultKind) {
        var history = MadeHistory()
        history.grant(1, to: 1, fence: 1, asked: 0, answered: 5)
        history.fault(kind, from: 10, to: 20)
        history.grant(2, to: 2, fence: 2, asked: 30, answered: 35)
        #expect(history.broken == [.exclusion])
    }
}

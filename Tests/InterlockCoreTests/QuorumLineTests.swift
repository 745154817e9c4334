import InterlockCore
import Testing

@Suite("The waiters for one quorum lock in one sidecar")
struct QuorumLineTests {
    @Test("only the head tries, and after a refusal it pauses")
    func headTries() {
        var line = QuorumLine()
        #expect(line.enqueue(1) == .attempt(1))
        #expect(line.enqueue(2) == .none)
        #expect(line.refused(1) == .pause(1))
        #expect(line.timerFired() == .attempt(1))
        #expect(line.count == 2)
    }

    @Test("waiters are granted in the order in which they came")
    func order() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        _ = line.enqueue(2)
        #expect(line.granted(1) == (true, .pause(2)))
        #expect(line.wake() == .attempt(2))
        #expect(line.granted(2) == (true, .drop))
    }

    @Test("a wake-up during an attempt is not lost")
    func wakeDuringAttempt() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        #expect(line.wake() == .none)
        #expect(line.refused(1) == .attempt(1))
        #expect(line.refused(1) == .pause(1))
    }

    @Test("what is granted to a waiter who left meanwhile is not wanted")
    func leaver() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        _ = line.enqueue(2)
        #expect(line.remove(1) == .none)
        #expect(line.granted(1) == (false, .pause(2)))
        #expect(line.remove(2) == .drop)
    }

    @Test("after a leaver's refused attempt the next one tries at once; nobody left: the line is dropped")
    func leaverRefused() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        _ = line.enqueue(2)
        _ = line.remove(1)
        #expect(line.refused(1) == .attempt(2))
        _ = line.remove(2)
        #expect(line.refused(2) == .drop)
    }

    @Test("a new head tries, as its pause may be shorter")
    func newHead() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        _ = line.enqueue(2)
        _ = line.refused(1)
        #expect(line.remove(1) == .attempt(2))
    }

    @Test("a failed head leaves, and the next one tries")
    func failed() {
        var line = QuorumLine()
        _ = line.enqueue(1)
        _ = line.enqueue(2)
        #expect(line.failed(1) == .attempt(2))
        #expect(line.failed(2) == .drop)
    }

    @Test("answers to attempts of another line are passed over")
    func strangers() {
        var line = QuorumLine()
        _ = line.enqueue(7)
        #expect(line.granted(1) == (false, .none))
        #expect(line.refused(1) == .none)
        #expect(line.failed(1) == .none)
        #expect(line.granted(7) == (true, .drop))
    }
}

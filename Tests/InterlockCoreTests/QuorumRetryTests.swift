import InterlockCore
import Testing

@Suite("Counting a quorum's answers and scheduling retries")
struct QuorumTallyTests {
    @Test("More than half is a majority", arguments: [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
    func moreThanHalfIsMajority(servers: Int, majority: Int) {
        #expect(QuorumTally.majority(of: servers) == majority)
    }

    @Test(
        "A verdict is reached as soon as no further answer can change it",
        arguments: [
            ("", QuorumTally.Verdict.open), ("y", .open), ("yy", .yes), ("nn", .no), ("yn", .open), ("yf", .open), ("nf", .open),
            ("ff", .unknown), ("ynf", .unknown), ("yfy", .yes), ("nfn", .no), ("yny", .yes), ("nyn", .no),
        ])
    func verdict(answers: String, verdict: QuorumTally.Verdict) {
        var tally = QuorumTally(servers: 3)
        for answer in answers { tally.count(answer == "y" ? .yes : answer == "n" ? .no : .failed) }
        #expect(tally.verdict == verdict)
    }

    @Test("Half of an even number is no majority, and refusals by half rule one out")
    func halfIsNoMajority() {
        var tally = QuorumTally(servers: 4)
        tally.count(.yes)
        tally.count(.yes)
        #expect(tally.verdict == .open)
        tally.count(.no)
        tally.count(.no)
        #expect(tally.verdict == .no)
    }

    @Test("A waiter retries after a random pause, sooner near its deadline, and not when no time is left")
    func waiterRetriesAfterRandomPause() {
        let now = Instant(nanoseconds: 0)
        func pause(left: Int64, random: Double) -> Int64? {
            QuorumRetry.nextAttempt(after: now, deadline: now.advanced(byMilliseconds: left), random: random)
                .map { $0.millisecondsRoundedUp(since: now) }
        }
        #expect(pause(left: 60_000, random: 0) == QuorumRetry.pauseRangeMilliseconds.lowerBound)
        #expect(pause(left: 60_000, random: 1) == QuorumRetry.pauseRangeMilliseconds.upperBound)
        #expect(pause(left: 60_000, random: 0.5) == 150)
        #expect(pause(left: 100, random: 1) == 50)
        #expect(pause(left: 9, random: 0) == nil)
        #expect(pause(left: -1, random: 0) == nil)
    }

    @Test(
        "A server's timeout is far below the ttl and never above the maximum",
        arguments: [(Int64(50), Int64(10)), (1000, 100), (60_000, 500)])
    func timeouts(ttl: Int64, timeout: Int64) {
        #expect(QuorumRetry.timeoutMilliseconds(ttlMilliseconds: ttl, maximumMilliseconds: 500) == timeout)
    }
}

@Suite("The waiters for one quorum lock in one sidecar")
struct QuorumQueueTests {
    @Test("Only the first waiter tries, and it pauses after a refusal")
    func headTries() {
        var queue = QuorumQueue()
        #expect(queue.enqueue(1) == .attempt(1))
        #expect(queue.enqueue(2) == .none)
        #expect(queue.attemptRefused(1) == .pause(1))
        #expect(queue.timerFired() == .attempt(1))
        #expect(queue.count == 2)
    }

    @Test("Waiters are granted in the order of arrival")
    func waitersAreGrantedInOrderOfArrival() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        _ = queue.enqueue(2)
        #expect(queue.attemptGranted(1) == (true, .pause(2)))
        #expect(queue.wake() == .attempt(2))
        #expect(queue.attemptGranted(2) == (true, .drop))
    }

    @Test("A wake-up during an attempt is not lost")
    func wakeDuringAttempt() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        #expect(queue.wake() == .none)
        #expect(queue.attemptRefused(1) == .attempt(1))
        #expect(queue.attemptRefused(1) == .pause(1))
    }

    @Test("A grant for a waiter that has left is released")
    func grantForWaiterThatHasLeftIsReleased() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        _ = queue.enqueue(2)
        #expect(queue.remove(1) == .none)
        #expect(queue.attemptGranted(1) == (false, .pause(2)))
        #expect(queue.remove(2) == .drop)
    }

    @Test("After the refused attempt of a waiter that left, the next one tries immediately, or the queue is dropped")
    func leaverRefused() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        _ = queue.enqueue(2)
        _ = queue.remove(1)
        #expect(queue.attemptRefused(1) == .attempt(2))
        _ = queue.remove(2)
        #expect(queue.attemptRefused(2) == .drop)
    }

    @Test("A new first waiter tries immediately because its pause may be shorter")
    func newHead() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        _ = queue.enqueue(2)
        _ = queue.attemptRefused(1)
        #expect(queue.remove(1) == .attempt(2))
    }

    @Test("A failed first waiter leaves, and the next one tries")
    func failedFirstWaiterLetsNextTry() {
        var queue = QuorumQueue()
        _ = queue.enqueue(1)
        _ = queue.enqueue(2)
        #expect(queue.attemptFailed(1) == .attempt(2))
        #expect(queue.attemptFailed(2) == .drop)
    }

    @Test("Answers to attempts of another queue are ignored")
    func otherQueues() {
        var queue = QuorumQueue()
        _ = queue.enqueue(7)
        #expect(queue.attemptGranted(1) == (false, .none))
        #expect(queue.attemptRefused(1) == .none)
        #expect(queue.attemptFailed(1) == .none)
        #expect(queue.attemptGranted(7) == (true, .drop))
    }
}

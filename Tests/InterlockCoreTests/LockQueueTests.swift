import InterlockCore
import Testing

@Suite("The waiters for one lock in one sidecar")
struct LockQueueTests {
    private let start = Instant(nanoseconds: 0)

    private func waiter(_ id: UInt64, for milliseconds: Int64 = 60_000) -> LockQueue.Waiter {
        LockQueue.Waiter(id: id, deadline: start.advanced(byMilliseconds: milliseconds))
    }

    private func at(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    /// Returns a queue of the waiters 1...`count`, with a ticket in Redis.
    private func queue(of count: UInt64) -> LockQueue {
        var queue = LockQueue()
        for id in 1...count { _ = queue.enqueue(waiter(id)) }
        _ = queue.beginAttempt()
        _ = queue.attemptRefused(1, ttlMilliseconds: 30_000, position: 1, now: start)
        return queue
    }

    @Test("Only the first waiter sends attempts, and the others send nothing")
    func headTries() {
        var queue = LockQueue()
        #expect(queue.enqueue(waiter(1)) == .attempt(1))
        #expect(queue.enqueue(waiter(2)) == .none)
        #expect(queue.count == 2)
    }

    @Test(
        "A refused first waiter waits for the holder's ttl, at most until the recheck",
        arguments: [
            (Int64?.some(100), Int64(101)), (.some(0), 1), (nil, LockQueue.recheckMilliseconds),
            (.some(3_600_000), LockQueue.recheckMilliseconds),
        ])
    func refusedHeadRests(ttl: Int64?, pause: Int64) {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.attemptRefused(1, ttlMilliseconds: ttl, position: 1, now: start) == .armTimer(at(pause)))
        #expect(queue.timerFired(now: at(pause)) == .attempt(1))
    }

    @Test("The first in the fleet's queue checks again soon, then waits while the lock is held")
    func firstChecks() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        let check = LockQueue.checkMilliseconds
        #expect(queue.attemptRefused(1, ttlMilliseconds: 30_000, position: 0, now: start) == .armTimer(at(check)))
        #expect(queue.timerFired(now: at(check)) == .check)
        #expect(queue.checkEnded(.held(ttlMilliseconds: 400), now: at(check)) == .armTimer(at(check + 401)))
    }

    @Test("A lease that ends before the next check has its own timer")
    func shortLease() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.attemptRefused(1, ttlMilliseconds: 5, position: 0, now: start) == .armTimer(at(6)))
    }

    @Test("A lock that a check finds free is tried immediately, and a check without an answer leaves the recheck")
    func checkFindsFree() {
        var queue = queue(of: 1)
        #expect(queue.lockChanged(now: at(100)) == .check)
        #expect(queue.checkEnded(.free, now: at(100)) == .attempt(1))
        _ = queue.attemptRefused(1, ttlMilliseconds: 30_000, position: 0, now: at(100))
        _ = queue.timerFired(now: at(120))
        let recheck = at(120 + LockQueue.recheckMilliseconds)
        #expect(queue.checkEnded(.unknown, now: at(120)) == .armTimer(recheck))
    }

    @Test("A change causes a check, subject to a minimum interval")
    func changesCauseChecks() {
        var queue = queue(of: 1)
        #expect(queue.lockChanged(now: at(1000)) == .check)
        _ = queue.checkEnded(.held(ttlMilliseconds: 30_000), now: at(1001))
        #expect(queue.lockChanged(now: at(1002)) == .armTimer(at(1000 + LockQueue.checkMilliseconds)))
        #expect(queue.lockChanged(now: at(1003)) == .armTimer(at(1000 + LockQueue.checkMilliseconds)))
        #expect(queue.timerFired(now: at(1020)) == .check)
    }

    @Test("A change during a check is not lost")
    func changeDuringCheckIsNotLost() {
        var queue = queue(of: 1)
        #expect(queue.lockChanged(now: at(1000)) == .check)
        #expect(queue.lockChanged(now: at(1001)) == .none)
        #expect(
            queue.checkEnded(.held(ttlMilliseconds: 30_000), now: at(1002))
                == .armTimer(at(1000 + LockQueue.checkMilliseconds)))
        #expect(queue.timerFired(now: at(1020)) == .check)
    }

    @Test("A hand-over to another sidecar postpones the check, so that a busy queue does not need checks")
    func busyQueue() {
        var queue = queue(of: 1)
        for turn in 1...50 {
            let now = at(Int64(turn) * 5)
            #expect(queue.becameFirst(now: now) == .armTimer(now.advanced(byMilliseconds: LockQueue.checkMilliseconds)))
        }
    }

    @Test("A wake-up during an attempt is not lost")
    func wakeDuringAttempt() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.wake() == .none)
        #expect(queue.attemptRefused(1, ttlMilliseconds: 30_000, position: 1, now: start) == .attempt(1))
        #expect(queue.attemptRefused(1, ttlMilliseconds: 30_000, position: 1, now: start) != .attempt(1))
    }

    @Test("A wake-up that arrives before the grant that caused it counts for the next waiter")
    func wokenBeforeGranted() {
        var queue = queue(of: 2)
        _ = queue.wake()
        _ = queue.beginAttempt()
        #expect(queue.wake() == .none)
        #expect(queue.attemptGranted(1, ttlMilliseconds: 30_000, now: start) == .attempt(2))
    }

    @Test("A granted waiter leaves, and those behind it keep the ticket or the next one creates it")
    func grantedByAttempt() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        let hasOthers = queue.beginAttempt()
        #expect(!hasOthers)
        _ = queue.enqueue(waiter(2))
        #expect(queue.attemptGranted(1, ttlMilliseconds: 1000, now: start) == .attempt(2))
        _ = queue.enqueue(waiter(3))
        let hasMore = queue.beginAttempt()
        #expect(hasMore)
        #expect(
            queue.attemptGranted(2, ttlMilliseconds: 1000, now: start) == .armTimer(at(LockQueue.checkMilliseconds)))
        _ = queue.enqueue(waiter(4))
        #expect(queue.wake() == .attempt(3))
        _ = queue.beginAttempt()
        _ = queue.attemptGranted(3, ttlMilliseconds: 1000, now: start)
        #expect(queue.wake() == .attempt(4))
        _ = queue.beginAttempt()
        #expect(queue.attemptGranted(4, ttlMilliseconds: 1000, now: start) == .drop(hasTicket: false))
    }

    @Test("An empty queue removes its ticket")
    func emptyQueueRemovesTicket() {
        var queue = queue(of: 2)
        #expect(queue.remove(2) == (true, .none))
        #expect(queue.remove(2) == (false, .none))
        #expect(queue.remove(1) == (true, .drop(hasTicket: true)))
    }

    @Test("A queue whose only waiter leaves during its attempt is dropped when the attempt ends")
    func leaverDuringAttempt() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.beginAttempt()
        #expect(queue.remove(1) == (true, .none))
        #expect(queue.attemptGranted(1, ttlMilliseconds: 1000, now: start) == .drop(hasTicket: false))
    }

    @Test("A failed first waiter leaves, and the next one tries")
    func failedHead() {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.enqueue(waiter(2))
        #expect(queue.attemptFailed(1) == .attempt(2))
        #expect(queue.attemptFailed(2) == .drop(hasTicket: false))
    }

    @Test(
        "An attempt lost with its connection leaves no waiter stuck, with or without a wake-up meanwhile",
        arguments: [true, false])
    func lostAttemptLeavesNoWaiterStuck(isWoken: Bool) {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        if isWoken { _ = queue.wake() }
        #expect(queue.attemptUnanswered(1, now: start) == .armTimer(at(LockQueue.recheckMilliseconds)))
        #expect(queue.wake() == .attempt(1))
        _ = queue.remove(1)
        #expect(queue.attemptUnanswered(1, now: start) == .drop(hasTicket: true))
    }

    // MARK: Releases

    @Test("A turn serves a limited number of waiters in order before other sidecars get theirs")
    func turns() {
        var queue = queue(of: 20)
        _ = queue.wake()
        _ = queue.beginAttempt()
        _ = queue.attemptGranted(1, ttlMilliseconds: 1000, now: start)
        for id in 2...UInt64(LockQueue.maximumGrantsPerTurn) {
            let succession = queue.beginRelease()
            #expect(succession == .init(id: id, continuesTurn: true, hasOthers: true))
            if let succession {
                _ = queue.lockPassedOn(succession, beginsTurn: false, ttlMilliseconds: 1000, now: start)
            }
        }
        let last = queue.beginRelease()
        #expect(last?.continuesTurn == false)
    }

    @Test("A holder that acquired the lock before the queue existed starts no turn")
    func earlierHolderStartsNoTurn() {
        var queue = queue(of: 2)
        let succession = queue.beginRelease()
        #expect(succession == .init(id: 1, continuesTurn: false, hasOthers: true))
    }

    @Test("Only one of two concurrent releases names a successor")
    func twoReleases() {
        var queue = queue(of: 2)
        let first = queue.beginRelease()
        #expect(first?.id == 1)
        let second = queue.beginRelease()
        #expect(second == nil)
        #expect(queue.releaseFailed() == .none)
        let third = queue.beginRelease()
        #expect(third?.id == 1)
    }

    @Test("A release without an answer is followed by an attempt, and its end by another")
    func unansweredRelease() {
        var queue = queue(of: 2)
        _ = queue.beginRelease()
        #expect(queue.releaseUnanswered() == .attempt(1))
        _ = queue.beginRelease()
        #expect(queue.releaseUnanswered() == .none)
        #expect(queue.attemptRefused(1, ttlMilliseconds: 1000, position: 0, now: start) == .attempt(1))
    }

    @Test("A waiter overtaken by another sidecar keeps waiting, first or not", arguments: [true, false])
    func overtakenWaiterKeepsWaiting(becameFirst: Bool) {
        var queue = queue(of: 2)
        _ = queue.beginRelease()
        let pause = becameFirst ? LockQueue.checkMilliseconds : LockQueue.recheckMilliseconds
        #expect(queue.successorBypassed(becameFirst: becameFirst, now: start) == .armTimer(at(pause)))
        #expect(queue.count == 2)
    }

    @Test("A successor that left during the release keeps the queue until the release is answered")
    func successorLeaves() throws {
        var queue = queue(of: 1)
        let named = queue.beginRelease()
        let succession = try #require(named)
        #expect(queue.remove(1) == (true, .none))
        #expect(
            queue.lockPassedOn(succession, beginsTurn: true, ttlMilliseconds: 1000, now: start)
                == .drop(hasTicket: false))
    }

    @Test("An attempt that a release overtook grants nothing twice, and the next attempt creates the ticket")
    func overtakenAttemptGrantsNothingTwice() throws {
        var queue = LockQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.beginAttempt()
        let named = queue.beginRelease()
        let succession = try #require(named)
        #expect(queue.lockPassedOn(succession, beginsTurn: true, ttlMilliseconds: 1000, now: start) == .none)
        #expect(queue.enqueue(waiter(2)) == .none)
        #expect(queue.attemptOvertaken(1, now: start) == .attempt(2))
    }

    @Test("In any order of events the first waiter is served first, and every waiter has a pending step")
    func randomRuns() {
        for seed in 0..<2_000 {
            var run = RandomRun(seed: UInt64(seed))
            for _ in 0..<60 { run.step() }
        }
    }
}

/// A queue and its pending requests.
private struct RandomRun {
    private let start = Instant(nanoseconds: 0)
    private var random: SeededRandom
    private var queue = LockQueue()
    private var expected: [UInt64] = []
    private var served: Set<UInt64> = []
    private var attempt: UInt64?
    private var succession: LockQueue.Succession?
    private var isTimerArmed = false
    private var isChecking = false
    private var lastID: UInt64 = 0

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    private mutating func note(_ action: LockQueue.Action) {
        switch action {
        case .attempt(let id):
            #expect(attempt == nil)
            #expect(id == expected.first)
            attempt = id
            isTimerArmed = false
            _ = queue.beginAttempt()
        case .armTimer: isTimerArmed = true
        case .check:
            #expect(!isChecking)
            isChecking = true
            isTimerArmed = false
        case .drop:
            #expect(expected.isEmpty)
            #expect(attempt == nil && succession == nil)
            // The next waiter starts another queue.
            queue = LockQueue()
            isTimerArmed = false
            isChecking = false
        case .none: break
        }
    }

    private mutating func serve(_ id: UInt64) {
        guard let index = expected.firstIndex(of: id) else { return }
        #expect(index == 0)
        #expect(served.insert(id).inserted)
        expected.remove(at: index)
    }

    mutating func step() {
        switch random.next() % 10 {
        case 0, 1:
            lastID += 1
            expected.append(lastID)
            note(queue.enqueue(.init(id: lastID, deadline: start.advanced(byMilliseconds: 60_000))))
        case 2:
            guard let id = attempt else { return }
            attempt = nil
            let isOvertaken = served.contains(id)
            serve(id)
            note(
                isOvertaken
                    ? queue.attemptOvertaken(id, now: start) : queue.attemptGranted(id, ttlMilliseconds: 10, now: start)
            )
        case 3:
            guard let id = attempt else { return }
            attempt = nil
            note(queue.attemptRefused(id, ttlMilliseconds: 10, position: random.next() % 2 == 0 ? 0 : 1, now: start))
        case 4:
            note(random.next() % 2 == 0 ? queue.wake() : queue.lockChanged(now: start))
        case 5:
            guard isTimerArmed else { return }
            isTimerArmed = false
            note(queue.timerFired(now: start.advanced(byMilliseconds: 10_000)))
        case 6:
            guard isChecking else { return }
            isChecking = false
            note(queue.checkEnded([.free, .held(ttlMilliseconds: 5), .unknown][Int(random.next() % 3)], now: start))
        case 7:
            guard succession == nil else { return }
            succession = queue.beginRelease()
            #expect(succession?.id == expected.first)
        case 8:
            guard let pending = succession else { return }
            succession = nil
            switch random.next() % 3 {
            case 0:
                serve(pending.id)
                note(queue.lockPassedOn(pending, beginsTurn: random.next() % 2 == 0, ttlMilliseconds: 10, now: start))
            case 1: note(queue.successorBypassed(becameFirst: random.next() % 2 == 0, now: start))
            default: note(random.next() % 2 == 0 ? queue.releaseFailed() : queue.releaseUnanswered())
            }
        default:
            guard let id = expected.randomElement(using: &random) else { return }
            expected.removeAll { $0 == id }
            note(queue.remove(id).next)
        }
        #expect(queue.count == expected.count)
        if !expected.isEmpty {
            #expect(attempt != nil || isTimerArmed || isChecking, "a waiter has no pending step")
        }
    }
}

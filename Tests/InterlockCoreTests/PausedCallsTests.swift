import InterlockCore
import Testing

@Suite("Calls that wait through a pause made by a limit")
struct PausedCallsTests {
    private let now = Instant(nanoseconds: 10_000_000_000)

    private func after(_ milliseconds: Int64) -> Instant { now.advanced(byMilliseconds: milliseconds) }

    private func paused(_ numbers: UInt64..., deadline: Int64 = 5000, earliest: Int64 = 0) -> PausedCalls {
        var paused = PausedCalls(maximumWaiting: 10)
        for number in numbers {
            _ = paused.insert(number, deadline: after(deadline), earliest: after(earliest))
        }
        return paused
    }

    @Test("No call is sent during the pause, and the queue is checked when it ends")
    func noCallIsSentDuringPause() {
        var paused = paused(1, 2)
        let decision = paused.decide(.paused(until: after(2000)), now: now)
        #expect(decision == .init())
        #expect(paused.nextWakeUp(.paused(until: after(2000)), now: now) == after(2000))
    }

    @Test("Only the first call is a trial, and the others follow in order once the breaker has closed")
    func firstTries() {
        var paused = paused(1, 2, 3)
        let first = paused.decide(.trial, now: now)
        #expect(first == .init(sent: [1]))
        let decisionDuringTrial = paused.decide(.trial, now: now)
        #expect(decisionDuringTrial == .init())
        #expect(paused.isActive)
        let wasTrial = paused.sentCallEnded(1, wasGranted: true, retryAt: after(100))
        #expect(wasTrial)
        let patient = paused.decide(.trial, now: now)
        #expect(patient == .init())
        let decisionAfterClosing = paused.decide(.clear, now: now)
        #expect(decisionAfterClosing == .init(sent: [2, 3]))
        #expect(!paused.isActive)
    }

    @Test("If the breaker does not close after the first trial, the next one begins after a while")
    func closingTakesTooLong() {
        var paused = paused(1, 2)
        _ = paused.decide(.trial, now: now)
        _ = paused.sentCallEnded(1, wasGranted: true, retryAt: after(100))
        #expect(paused.nextWakeUp(.trial, now: now) == after(100))
        let next = paused.decide(.trial, now: after(100))
        #expect(next == .init(sent: [2]))
    }

    @Test("If the first call was refused or has left, the next trial begins immediately")
    func firstFails() {
        var paused = paused(1, 2)
        _ = paused.decide(.trial, now: now)
        _ = paused.sentCallEnded(1, wasGranted: false, retryAt: after(100))
        let next = paused.decide(.trial, now: now)
        #expect(next == .init(sent: [2]))
    }

    @Test("A trial call that is queued again is first again")
    func comesBack() {
        var paused = paused(1, 2)
        _ = paused.decide(.trial, now: now)
        let isQueued = paused.insert(1, deadline: after(5000), earliest: after(300))
        #expect(isQueued)
        let earlyDecision = paused.decide(.trial, now: after(299))
        #expect(earlyDecision == .init())
        #expect(paused.nextWakeUp(.trial, now: after(299)) == after(300))
        let again = paused.decide(.trial, now: after(300))
        #expect(again == .init(sent: [1]))
    }

    @Test("A trial call that cannot be queued again remains the trial until it ends")
    func cannotComeBack() {
        var paused = paused(1, 2)
        _ = paused.decide(.trial, now: now)
        let isQueued = paused.insert(1, deadline: after(5000), earliest: after(5001))
        #expect(!isQueued)
        let wasTrial = paused.sentCallEnded(1, wasGranted: false, retryAt: now)
        #expect(wasTrial)
    }

    @Test("Calls whose deadline is before the end of the pause are refused immediately, and the others keep waiting")
    func tooLong() {
        var paused = paused(1, deadline: 1000)
        _ = paused.insert(2, deadline: after(3000), earliest: now)
        let decision = paused.decide(.paused(until: after(2000)), now: now)
        #expect(decision == .init(refused: [.init(number: 1, retryAfterMilliseconds: 2000)]))
        #expect(paused.count == 1)
    }

    @Test("If the breaker is open for another cause, all calls are refused immediately")
    func otherCause() {
        var paused = paused(1, 2)
        let decision = paused.decide(.refusing(retryAfterMilliseconds: 700), now: now)
        #expect(
            decision
                == .init(refused: [
                    .init(number: 1, retryAfterMilliseconds: 700), .init(number: 2, retryAfterMilliseconds: 700),
                ]))
        #expect(paused.isEmpty)
    }

    @Test("A wait ends at its deadline")
    func waitEndsAtDeadline() {
        var paused = paused(1, deadline: 100)
        #expect(paused.nextWakeUp(.paused(until: after(100)), now: now) == after(100))
        let decision = paused.decide(.trial, now: after(100))
        #expect(decision.sent.isEmpty)
        #expect(decision.refused.map(\.number) == [1])
    }

    @Test("While no breaker is open, each call is sent when its limit may have capacity")
    func earliest() {
        var paused = paused(1, earliest: 300)
        _ = paused.insert(2, deadline: after(5000), earliest: after(200))
        #expect(paused.nextWakeUp(.clear, now: now) == after(200))
        let first = paused.decide(.clear, now: after(200))
        #expect(first == .init(sent: [2]))
        let second = paused.decide(.clear, now: after(300))
        #expect(second == .init(sent: [1]))
    }

    @Test("A call that cannot be sent before its deadline does not wait, and the queue is bounded")
    func hopelessCallDoesNotWait() {
        var paused = PausedCalls(maximumWaiting: 1)
        let hopeless = paused.insert(1, deadline: after(100), earliest: after(101))
        let first = paused.insert(2, deadline: after(100), earliest: after(100))
        let second = paused.insert(3, deadline: after(100), earliest: after(100))
        #expect(!hopeless && first && !second)
    }

    @Test("One subject's calls take at most a quarter of the queue")
    func oneSubjectCallsTakeAtMostQuarterOfQueue() {
        var paused = PausedCalls(maximumWaiting: 8)
        let inserted = (0..<5).map { paused.insert($0, of: "greedy", deadline: after(5000), earliest: now) }
        #expect(inserted == [true, true, false, false, false])
        for number in 10..<16 as Range<UInt64> {
            let isInserted = paused.insert(number, of: "\(number)", deadline: after(5000), earliest: now)
            #expect(isInserted)
        }
        // A call that leaves frees its position.
        let isRemoved = paused.remove(0)
        #expect(isRemoved)
        let next = paused.insert(20, of: "greedy", deadline: after(5000), earliest: now)
        #expect(next)
        // A call that was sent and is queued again is exempt from the quarter, but not from the capacity.
        let back = paused.insert(1, of: "greedy", hasWaited: true, deadline: after(5000), earliest: now)
        #expect(!back, "the queue is full")
        let hasLeft = [10, 11].map { paused.remove($0) }
        #expect(hasLeft == [true, true])
        let isIn = [false, true].map { paused.insert(2, of: "greedy", hasWaited: $0, deadline: after(5000), earliest: now) }
        #expect(isIn == [false, true])
    }

    @Test("A call that has left is not sent")
    func callThatHasLeftIsNotSent() {
        var paused = paused(1, 2, 3)
        let left = paused.remove(2)
        let again = paused.remove(2)
        #expect(left && !again)
        let decision = paused.decide(.clear, now: now)
        #expect(decision == .init(sent: [1, 3]))
        #expect(paused.isEmpty)
    }
}

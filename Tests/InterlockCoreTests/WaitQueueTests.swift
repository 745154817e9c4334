import InterlockCore
import Testing

@Suite("The queue of a lock's waiters in one sidecar")
struct WaitQueueTests {
    private let start = Instant(nanoseconds: 0)

    private func waiter(_ id: UInt64, for milliseconds: Int64 = 60_000) -> WaitQueue.Waiter {
        WaitQueue.Waiter(id: id, deadline: start.advanced(byMilliseconds: milliseconds))
    }

    @Test("only the head tries; the others cost nothing")
    func headTries() {
        var queue = WaitQueue()
        #expect(queue.enqueue(waiter(1)) == .attempt(1))
        #expect(queue.enqueue(waiter(2)) == .none)
        #expect(queue.count == 2)
    }

    @Test(
        "a refused head waits for the holder's ttl at most, and never longer than the recheck",
        arguments: [
            (Int64?.some(100), Int64(101)), (.some(0), 1), (nil, WaitQueue.recheckMilliseconds),
            (.some(3_600_000), WaitQueue.recheckMilliseconds),
        ])
    func refusedHeadRests(ttl: Int64?, pause: Int64) {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.refused(1, ttl: ttl, now: start) == .armTimer(start.advanced(byMilliseconds: pause)))
        #expect(queue.timerFired() == .attempt(1))
    }

    @Test("waiters are granted in the order in which they came")
    func firstComeFirstServed() {
        var queue = WaitQueue()
        var action = queue.enqueue(waiter(1))
        for id in 2...5 { #expect(queue.enqueue(waiter(UInt64(id))) == .none) }
        for id in 1...5 {
            #expect(action == .attempt(UInt64(id)))
            let (grant, next) = queue.granted(UInt64(id))
            #expect(grant == .deliver)
            #expect(next == (id == 5 ? .drop : .none))
            action = queue.wake()
        }
        #expect(queue.isEmpty)
    }

    @Test("a wake-up during an attempt is not lost")
    func wakeDuringAttempt() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.wake() == .none)
        #expect(queue.refused(1, ttl: 30_000, now: start) == .attempt(1))
        #expect(queue.refused(1, ttl: 30_000, now: start) != .attempt(1))
    }

    @Test("what is granted to a waiter who left meanwhile is given back")
    func leaverDuringAttempt() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        #expect(queue.remove(1) == (true, .none))
        let (grant, next) = queue.granted(1)
        #expect(grant == .giveBack)
        #expect(next == .drop)
    }

    @Test("after a leaver's refused attempt the next one tries at once")
    func leaverRefused() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.enqueue(waiter(2))
        _ = queue.remove(1)
        #expect(queue.refused(1, ttl: 30_000, now: start) == .attempt(2))
    }

    @Test("a new head tries, to refresh the sidecar's ticket")
    func newHeadTries() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.enqueue(waiter(2))
        _ = queue.refused(1, ttl: 30_000, now: start)
        #expect(queue.remove(1) == (true, .attempt(2)))
    }

    @Test("a leaver from the middle changes nothing for the others")
    func leaverFromTheMiddle() {
        var queue = WaitQueue()
        for id in 1...3 { _ = queue.enqueue(waiter(UInt64(id))) }
        _ = queue.refused(1, ttl: 30_000, now: start)
        #expect(queue.remove(2) == (true, .none))
        #expect(queue.remove(2) == (false, .none))
        #expect(queue.wake() == .attempt(1))
    }

    @Test("a failed head leaves, and the next one tries")
    func failedHead() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.enqueue(waiter(2))
        #expect(queue.failed(1) == .attempt(2))
        #expect(queue.failed(2) == .drop)
    }

    @Test("an attempt that the connection took with it leaves nobody stuck, woken meanwhile or not", arguments: [true, false])
    func unanswered(isWoken: Bool) {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        if isWoken { _ = queue.wake() }
        let pause = start.advanced(byMilliseconds: WaitQueue.recheckMilliseconds)
        #expect(queue.unanswered(1, now: start) == .armTimer(pause))
        #expect(queue.wake() == .attempt(1))
        _ = queue.remove(1)
        #expect(queue.unanswered(1, now: start) == .drop)
    }

    @Test("late answers of attempts that are over are given back or passed over")
    func lateAnswers() {
        var queue = WaitQueue()
        _ = queue.enqueue(waiter(1))
        _ = queue.failed(1)
        #expect(queue.granted(1) == (.giveBack, .none))
        #expect(queue.refused(1, ttl: 1, now: start) == .none)
    }

    @Test("whatever happens in whatever order, nobody is granted twice, nobody overtakes, and somebody always tries or rests")
    func randomLives() {
        var random = SplitMix64(seed: 42)
        for _ in 0..<2_000 {
            var queue = WaitQueue()
            var expected: [UInt64] = []
            var underWay: UInt64?
            var isTimerArmed = false
            var nextID: UInt64 = 0
            func note(_ action: WaitQueue.Action) {
                switch action {
                case .attempt(let id):
                    #expect(underWay == nil)
                    #expect(id == expected.first)
                    underWay = id
                    isTimerArmed = false
                case .armTimer: isTimerArmed = true
                case .drop: #expect(expected.isEmpty)
                case .none: break
                }
            }
            for _ in 0..<40 {
                switch random.next() % 6 {
                case 0:
                    nextID += 1
                    expected.append(nextID)
                    note(queue.enqueue(waiter(nextID)))
                case 1:
                    guard let id = underWay else { continue }
                    underWay = nil
                    let (grant, next) = queue.granted(id)
                    #expect((grant == .deliver) == (expected.first == id))
                    if expected.first == id { expected.removeFirst() }
                    note(next)
                    note(queue.rest(ttl: 10, now: start))
                case 2:
                    guard let id = underWay else { continue }
                    underWay = nil
                    note(queue.refused(id, ttl: 10, now: start))
                case 3:
                    note(queue.wake())
                case 4:
                    guard isTimerArmed else { continue }
                    isTimerArmed = false
                    note(queue.timerFired())
                default:
                    guard let id = expected.randomElement(using: &random) else { continue }
                    expected.removeAll { $0 == id }
                    note(queue.remove(id).next)
                }
                #expect(queue.count == expected.count)
                if !expected.isEmpty { #expect(underWay != nil || isTimerArmed, "somebody waits and nothing will wake it") }
            }
        }
    }
}

import InterlockCore
import Testing

@Suite("Concurrency slots of a service")
struct BulkheadTests {
    private let now = Instant(nanoseconds: 10_000_000_000)

    private func after(_ milliseconds: Int64) -> Instant { now.advanced(byMilliseconds: milliseconds) }

    /// Returns a bulkhead without free slots.
    private func full(_ slots: Int, maximumWaiting: Int = 10) -> Bulkhead {
        var bulkhead = Bulkhead(slots: slots, maximumWaiting: maximumWaiting)
        for number in 1...slots { _ = bulkhead.enter(UInt64(number), deadline: nil, now: now) }
        return bulkhead
    }

    @Test("Calls get slots while any are free, and a call that does not wait is refused when all are taken")
    func callsGetSlotsWhileAnyAreFree() {
        var bulkhead = Bulkhead(slots: 2, maximumWaiting: 10)
        var entries: [Bulkhead.Entry] = []
        for number in UInt64(1)...3 { entries.append(bulkhead.enter(number, deadline: nil, now: now)) }
        #expect(entries == [.taken, .taken, .full])
        #expect(bulkhead.taken == 2)
    }

    @Test("Without a limit every call gets a slot, and the calls are counted")
    func unbounded() {
        var bulkhead = Bulkhead(slots: nil, maximumWaiting: 0)
        for number in UInt64(0)..<1000 { _ = bulkhead.enter(number, deadline: nil, now: now) }
        #expect(bulkhead.taken == 1000)
        #expect(!bulkhead.isFull)
    }

    @Test("Free slots go to waiting calls in the order of arrival")
    func inOrder() {
        var bulkhead = full(2)
        for number in 11...14 {
            let entry = bulkhead.enter(UInt64(number), deadline: after(1000), now: now)
            #expect(entry == .waiting)
        }
        bulkhead.release(heldForMilliseconds: 10)
        bulkhead.release(heldForMilliseconds: 10)
        let first = bulkhead.assignSlots(now: now)
        #expect(first == .init(admitted: [11, 12]))
        let emptyAssignment = bulkhead.assignSlots(now: now)
        #expect(emptyAssignment == .init())
        bulkhead.release(heldForMilliseconds: 10)
        let second = bulkhead.assignSlots(now: now)
        #expect(second == .init(admitted: [13]))
    }

    @Test("No call overtakes a waiting call even when a slot is free")
    func noOvertaking() {
        var bulkhead = full(1)
        _ = bulkhead.enter(11, deadline: after(1000), now: now)
        bulkhead.release(heldForMilliseconds: 10)
        let newcomer = bulkhead.enter(12, deadline: nil, now: now)
        #expect(newcomer == .full)
        let patient = bulkhead.enter(13, deadline: after(1000), now: now)
        #expect(patient == .waiting)
        let assignment = bulkhead.assignSlots(now: now)
        #expect(assignment == .init(admitted: [11]))
    }

    @Test("An earlier call that arrives late is queued before later calls")
    func earlierNumberFirst() {
        var bulkhead = full(1)
        _ = bulkhead.enter(12, deadline: after(1000), now: now)
        _ = bulkhead.enter(11, deadline: after(1000), now: now)
        bulkhead.release(heldForMilliseconds: 10)
        let assignment = bulkhead.assignSlots(now: now)
        #expect(assignment == .init(admitted: [11]))
    }

    @Test("The queue is bounded")
    func boundedQueue() {
        var bulkhead = full(1, maximumWaiting: 2)
        var entries: [Bulkhead.Entry] = []
        for number in UInt64(11)...13 { entries.append(bulkhead.enter(number, deadline: after(1000), now: now)) }
        #expect(entries == [.waiting, .waiting, .full])
    }

    @Test("A wait ends at its deadline even if a slot becomes free at that moment")
    func waitEndsAtItsDeadline() {
        var bulkhead = full(1)
        _ = bulkhead.enter(11, deadline: after(100), now: now)
        _ = bulkhead.enter(12, deadline: after(200), now: now)
        #expect(bulkhead.nextDeadline == after(100))
        let early = bulkhead.assignSlots(now: after(99))
        #expect(early == .init())
        bulkhead.release(heldForMilliseconds: 10)
        let assignment = bulkhead.assignSlots(now: after(100))
        #expect(assignment == .init(admitted: [12], expired: [11]))
        #expect(bulkhead.nextDeadline == nil)
    }

    @Test("A call with a deadline in the past does not wait")
    func noTimeToWait() {
        var bulkhead = full(1)
        let entry = bulkhead.enter(11, deadline: now, now: now)
        #expect(entry == .full)
    }

    @Test("A call that has left does not get a slot")
    func callThatHasLeftDoesNotGetSlot() {
        var bulkhead = full(1)
        _ = bulkhead.enter(11, deadline: after(1000), now: now)
        _ = bulkhead.enter(12, deadline: after(1000), now: now)
        let left = bulkhead.remove(11)
        let again = bulkhead.remove(11)
        #expect(left && !again)
        bulkhead.release(heldForMilliseconds: 10)
        let assignment = bulkhead.assignSlots(now: now)
        #expect(assignment == .init(admitted: [12]))
    }

    @Test(
        "A higher limit grants slots immediately, and a lower one applies once enough calls have ended",
        arguments: [Int?.none, 3])
    func higherLimitGrantsSlotsImmediately(slots: Int?) {
        var bulkhead = full(1)
        for number in 11...12 { _ = bulkhead.enter(UInt64(number), deadline: after(1000), now: now) }
        bulkhead.resize(slots: slots, maximumWaiting: 10)
        let assignmentAfterResize = bulkhead.assignSlots(now: now)
        #expect(assignmentAfterResize == .init(admitted: [11, 12]))
        bulkhead.resize(slots: 1, maximumWaiting: 10)
        _ = bulkhead.enter(13, deadline: after(1000), now: now)
        bulkhead.release(heldForMilliseconds: 10)
        bulkhead.release(heldForMilliseconds: 10)
        let emptyAssignment = bulkhead.assignSlots(now: now)
        #expect(emptyAssignment == .init())
        bulkhead.release(heldForMilliseconds: 10)
        let last = bulkhead.assignSlots(now: now)
        #expect(last == .init(admitted: [13]))
    }

    @Test("A refused call's retry time depends on call durations and the queue's length, within limits")
    func retryHint() {
        var bulkhead = full(2)
        #expect(bulkhead.retryMilliseconds == Bulkhead.minimumRetryMilliseconds)
        bulkhead.release(heldForMilliseconds: 800)
        _ = bulkhead.enter(3, deadline: nil, now: now)
        #expect(bulkhead.retryMilliseconds == 400)
        _ = bulkhead.enter(11, deadline: after(1000), now: now)
        #expect(bulkhead.retryMilliseconds == 800)
        bulkhead.release(heldForMilliseconds: 1_000_000)
        #expect(bulkhead.retryMilliseconds == Bulkhead.maximumRetryMilliseconds)
    }

    @Test("Under random load slots are never oversubscribed, and no waiting call is lost")
    func randomLoadNeverOversubscribesSlots() {
        var random = SeededRandom(seed: 7)
        for _ in 0..<200 {
            let slots = Int.random(in: 1...4, using: &random)
            var bulkhead = Bulkhead(slots: slots, maximumWaiting: 5)
            var time = now
            var held = 0
            var waiting: Set<UInt64> = []
            for number in UInt64(1)...200 {
                time = time.advanced(byMilliseconds: .random(in: 0...20, using: &random))
                switch Int.random(in: 0...3, using: &random) {
                case 0:
                    if held > 0 {
                        bulkhead.release(heldForMilliseconds: 5)
                        held -= 1
                    }
                case 1:
                    if let leaver = waiting.randomElement(using: &random) {
                        let left = bulkhead.remove(leaver)
                        #expect(left)
                        waiting.remove(leaver)
                    }
                default:
                    switch bulkhead.enter(number, deadline: time.advanced(byMilliseconds: 50), now: time) {
                    case .taken: held += 1
                    case .waiting: waiting.insert(number)
                    case .full: break
                    }
                }
                let assignment = bulkhead.assignSlots(now: time)
                #expect(assignment.admitted == assignment.admitted.sorted())
                held += assignment.admitted.count
                for ended in assignment.admitted + assignment.expired {
                    let waited = waiting.remove(ended) != nil
                    #expect(waited)
                }
                #expect(bulkhead.taken == held)
                #expect(held <= slots)
                #expect(bulkhead.waitingCount == waiting.count)
                #expect(waiting.isEmpty || held == slots)
            }
        }
    }
}

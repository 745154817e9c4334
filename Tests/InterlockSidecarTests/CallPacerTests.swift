import InterlockCore
import NIOCore
import NIOEmbedded
import Testing

@testable import SidecarProxy

@Suite("Proxy pacing")
struct CallPacerTests {
    /// An event loop whose clock advances by `cost` when a call begins and again when it ends.
    private final class Loop {
        private final class Call: PacedCall {
            let number: Int
            let loop: Loop
            var isWanted = true

            init(_ number: Int, _ loop: Loop) {
                self.number = number
                self.loop = loop
            }

            func callAdmitted() {
                loop.now = loop.now + loop.cost
                loop.started.append(number)
            }
        }

        let events = EmbeddedEventLoop()
        let cost: TimeAmount
        var now = NIODeadline.uptimeNanoseconds(1_000_000_000)
        private(set) var started: [Int] = []
        private var count = 0

        init(cost: TimeAmount = .microseconds(100)) {
            self.cost = cost
        }

        private lazy var pacer = CallPacer(eventLoop: events, clock: { [unowned self] in now })

        /// Requests `number` calls within one tick. Returns closures that cancel them.
        func request(_ number: Int) -> [() -> Void] {
            let calls = (0..<number).map { Call(count + $0, self) }
            count += number
            for call in calls { pacer.admit(call) }
            events.run()
            return calls.map { call in { call.isWanted = false } }
        }

        /// Ends `number` calls within one tick.
        func end(_ number: Int) {
            for _ in 0..<number {
                now = now + cost
                pacer.callEnded()
            }
            events.run()
        }

        /// Simulates a tick of length `time` in which `number` calls arrive and none ends.
        ///
        /// - Parameter observed: the part of the time by which scheduled tasks advance; `nil` for all of it.
        func keepBusy(_ time: TimeAmount, arrivals number: Int, observed: TimeAmount? = nil) {
            let calls = (0..<number).map { Call(count + $0, self) }
            count += number
            for call in calls { pacer.admit(call) }
            now = now + time
            events.advanceTime(by: observed ?? time)
        }

        func pass(_ time: TimeAmount) {
            now = now + time
            events.advanceTime(by: time)
        }
    }

    @Test("A burst of calls starts a few per tick, in order, until all have started")
    func gradualStart() {
        let loop = Loop()
        _ = loop.request(1000)
        // The first tick allows half a millisecond of calls, plus a few at its end.
        #expect(loop.started.count < 20)
        var largest = 0
        var endedCount = 0
        while endedCount < 1000 {
            let inFlight = loop.started.count - endedCount
            largest = max(largest, inFlight)
            loop.end(min(inFlight, 8))
            endedCount += min(inFlight, 8)
            loop.pass(.microseconds(250))
        }
        #expect(loop.started == Array(0..<1000))
        #expect(largest < 20)
    }

    @Test("Calls to a slow service do not delay others, because they cost the loop no time")
    func slowService() {
        let loop = Loop()
        for _ in 0..<500 {
            _ = loop.request(1)
            loop.pass(.milliseconds(1))
        }
        #expect(loop.started.count == 500)
    }

    @Test("All calls of a burst to a slow service start soon, before any ends")
    func burstToSlowServiceStartsSoon() {
        let loop = Loop()
        _ = loop.request(200)
        let start = loop.now
        while loop.started.count < 200, loop.now - start < .seconds(1) { loop.pass(.microseconds(250)) }
        // The calls themselves take 20 ms of this time.
        #expect(loop.now - start < .milliseconds(60))
    }

    @Test("Calls still start while others keep the loop busy")
    func busyLoop() {
        let loop = Loop()
        _ = loop.request(1)
        let start = loop.now
        var requested = 0
        for turn in 1...2000 {
            // Every fifth tick brings a call, and other work takes a millisecond of each.
            loop.keepBusy(.milliseconds(1), arrivals: turn.isMultiple(of: 5) ? 1 : 0)
            requested += turn.isMultiple(of: 5) ? 1 : 0
            loop.pass(.zero)
        }
        #expect(loop.now - start > .seconds(1))
        #expect(loop.started.count >= requested - 5)
    }

    @Test("Two thousand calls a second still start while others stretch each tick to ten milliseconds")
    func longTicks() {
        let loop = Loop(cost: .microseconds(10))
        for _ in 1...100 { loop.keepBusy(.milliseconds(10), arrivals: 20, observed: .microseconds(250)) }
        #expect(loop.started.count >= 1900)
    }

    @Test("A call cancelled while waiting uses no slot")
    func cancelledCalls() {
        let loop = Loop()
        let cancellations = loop.request(100)
        for index in loop.started.count..<100 { cancellations[index]() }
        let started = loop.started.count
        loop.end(started)
        for _ in 0..<100 { loop.pass(.milliseconds(2)) }
        #expect(loop.started.count == started)
        _ = loop.request(1)
        #expect(loop.started.count == started + 1)
    }
}

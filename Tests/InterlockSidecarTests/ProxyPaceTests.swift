import InterlockCore
import NIOCore
import NIOEmbedded
import Testing

@testable import SidecarProxy

@Suite("Proxy pacing")
struct ProxyPaceTests {
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

            func goAhead() {
                loop.now = loop.now + loop.cost
                loop.begun.append(number)
            }
        }

        let events = EmbeddedEventLoop()
        let cost: TimeAmount
        var now = NIODeadline.uptimeNanoseconds(1_000_000_000)
        private(set) var begun: [Int] = []
        private var count = 0

        init(cost: TimeAmount = .microseconds(100)) {
            self.cost = cost
        }

        private lazy var pace = ProxyPace(eventLoop: events, clock: { [unowned self] in now })

        /// Requests `number` calls within one tick. Returns closures that cancel them.
        func ask(_ number: Int) -> [() -> Void] {
            let calls = (0..<number).map { Call(count + $0, self) }
            count += number
            for call in calls { pace.begin(call) }
            events.run()
            return calls.map { call in { call.isWanted = false } }
        }

        /// Ends `number` calls within one tick.
        func end(_ number: Int) {
            for _ in 0..<number {
                now = now + cost
                pace.ended()
            }
            events.run()
        }

        /// Simulates a tick of length `time` in which `number` calls arrive and none ends.
        ///
        /// - Parameter watched: the part of the time that scheduled tasks see pass; `nil` for all of it.
        func keepBusy(_ time: TimeAmount, beside number: Int, watched: TimeAmount? = nil) {
            let calls = (0..<number).map { Call(count + $0, self) }
            count += number
            for call in calls { pace.begin(call) }
            now = now + time
            events.advanceTime(by: watched ?? time)
        }

        func pass(_ time: TimeAmount) {
            now = now + time
            events.advanceTime(by: time)
        }
    }

    @Test("A burst of calls starts a few per tick, in order, until all have started")
    func crowd() {
        let loop = Loop()
        _ = loop.ask(1000)
        // The first tick allows half a millisecond of calls, plus a few at its end.
        #expect(loop.begun.count < 20)
        var largest = 0
        var ended = 0
        while ended < 1000 {
            let inFlight = loop.begun.count - ended
            largest = max(largest, inFlight)
            loop.end(min(inFlight, 8))
            ended += min(inFlight, 8)
            loop.pass(.microseconds(250))
        }
        #expect(loop.begun == Array(0..<1000))
        #expect(largest < 20)
    }

    @Test("Calls to a slow service do not delay others, because they cost the loop no time")
    func slowService() {
        let loop = Loop()
        for _ in 0..<500 {
            _ = loop.ask(1)
            loop.pass(.milliseconds(1))
        }
        #expect(loop.begun.count == 500)
    }

    @Test("All calls of a burst to a slow service start soon, before any ends")
    func burst() {
        let loop = Loop()
        _ = loop.ask(200)
        let came = loop.now
        while loop.begun.count < 200, loop.now - came < .seconds(1) { loop.pass(.microseconds(250)) }
        // The calls themselves take 20 ms of this.
        #expect(loop.now - came < .milliseconds(60))
    }

    @Test("Calls still start while others keep the loop busy")
    func busyLoop() {
        let loop = Loop()
        _ = loop.ask(1)
        let began = loop.now
        var asked = 0
        for turn in 1...2000 {
            // Every fifth tick brings a call, and other work takes a millisecond of each.
            loop.keepBusy(.milliseconds(1), beside: turn.isMultiple(of: 5) ? 1 : 0)
            asked += turn.isMultiple(of: 5) ? 1 : 0
            loop.pass(.zero)
        }
        #expect(loop.now - began > .seconds(1))
        #expect(loop.begun.count >= asked - 5)
    }

    @Test("Two thousand calls a second still start while others stretch each tick to ten milliseconds")
    func longTurns() {
        let loop = Loop(cost: .microseconds(10))
        for _ in 1...100 { loop.keepBusy(.milliseconds(10), beside: 20, watched: .microseconds(250)) }
        #expect(loop.begun.count >= 1900)
    }

    @Test("A call that left while waiting uses no slot")
    func left() {
        let loop = Loop()
        let leave = loop.ask(100)
        for index in loop.begun.count..<100 { leave[index]() }
        let begun = loop.begun.count
        loop.end(begun)
        for _ in 0..<100 { loop.pass(.milliseconds(2)) }
        #expect(loop.begun.count == begun)
        _ = loop.ask(1)
        #expect(loop.begun.count == begun + 1)
    }
}

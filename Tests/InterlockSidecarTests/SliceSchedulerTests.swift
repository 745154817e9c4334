import NIOCore
import NIOEmbedded
import Testing

@testable import SidecarListeners

@Suite("Slices of clients on the event loop")
struct SliceSchedulerTests {
    /// An event loop whose clock advances by the declared cost of each piece of work.
    private final class Loop {
        let events = EmbeddedEventLoop()
        var nowNanoseconds: Int64 = 0
        private(set) var completed: [String] = []
        /// The number of pieces of work done in each tick.
        private(set) var ticks: [Int] = []
        private lazy var scheduler = SliceScheduler(eventLoop: events) { [unowned self] in nowNanoseconds }

        /// A connection whose pieces of work each take `cost` microseconds.
        final class Client {
            let name: String
            let loop: Loop
            let slices: ConnectionSlices
            let cost: Int64
            private var pieces = 0
            private var isWaiting = false

            init(_ name: String, of clientName: String = "", cost: Int64, on loop: Loop) {
                self.name = name
                self.loop = loop
                self.cost = cost
                slices = ConnectionSlices(loop.scheduler)
                slices.clientName = clientName
            }

            /// Receives `count` pieces of work from the socket.
            func receive(_ count: Int) {
                pieces += count
                guard !isWaiting else { return }
                guard slices.begin() else { return continueLater() }
                work()
                slices.end()
            }

            private func continueLater() {
                isWaiting = true
                slices.later { [self] in
                    isWaiting = false
                    work()
                }
            }

            private func work() {
                repeat {
                    pieces -= 1
                    loop.nowNanoseconds += cost * 1_000
                    loop.completed.append(name)
                } while pieces > 0 && slices.mayContinue
                if pieces > 0 { continueLater() }
            }
        }

        func client(_ name: String, of clientName: String = "", cost: Int64) -> Client {
            Client(name, of: clientName, cost: cost, on: self)
        }

        /// Ends the current tick and begins the next.
        func tick() {
            let before = completed.count
            events.run()
            events.advanceTime(by: .microseconds(10))
            events.run()
            ticks.append(completed.count - before)
        }

        func clearCompleted() { completed = [] }
    }

    @Test("A client without competitors is served immediately")
    func clientWithoutCompetitorsIsServedImmediately() {
        let loop = Loop()
        loop.client("a", cost: 50).receive(3)
        #expect(loop.completed == ["a", "a", "a"])
    }

    @Test("A slice of a busy client ends after a quarter of a millisecond and continues in a later tick")
    func sliced() {
        let loop = Loop()
        loop.client("a", cost: 100).receive(30)
        #expect(loop.completed.count == 3)
        var ticks = 0
        while loop.completed.count < 30 {
            let before = loop.nowNanoseconds
            loop.tick()
            // The first slice took 300 µs; each run of the queue takes at most a millisecond and one slice.
            #expect(loop.nowNanoseconds - before <= 2 * 1_300_000)
            ticks += 1
            #expect(ticks < 20)
        }
        #expect(loop.completed.count == 30)
    }

    @Test("An occasional client is served before a hundred busy ones")
    func occasionalClientFirst() {
        let loop = Loop()
        let busy = (0..<100).map { loop.client("busy\($0)", cost: 100) }
        for client in busy { client.receive(1000) }
        for _ in 0..<150 { loop.tick() }
        let occasional = loop.client("occasional", cost: 10)
        loop.clearCompleted()
        occasional.receive(1)
        if loop.completed.isEmpty { loop.tick() }
        let position = loop.completed.firstIndex(of: "occasional")
        // At most one tick of the other clients precedes it.
        #expect(position.map { $0 <= 16 } ?? false)
    }

    @Test("A busy client progresses even if occasional ones use all the time")
    func busyClientIsNotStarved() {
        let loop = Loop()
        let busy = loop.client("busy", cost: 100)
        busy.receive(1000)
        loop.clearCompleted()
        let others = (0..<100).map { loop.client("other\($0)", of: "others", cost: 100) }
        for _ in 0..<20 {
            for other in others { other.receive(1) }
            loop.tick()
        }
        #expect(loop.completed.contains("busy"))
    }

    @Test("Connections with the same key share one turn")
    func connectionsOfOneKeyShareOneTurn() {
        let loop = Loop()
        let many = (0..<50).map { loop.client("many", of: "many\($0 / 50)", cost: 100) }
        let first = loop.client("one", of: "one", cost: 100)
        for client in many { client.receive(1000) }
        first.receive(1000)
        for _ in 0..<100 { loop.tick() }
        loop.clearCompleted()
        for _ in 0..<100 { loop.tick() }
        let share = loop.completed.count { $0 == "one" }
        #expect(share * 5 >= loop.completed.count * 2, "\(share) of \(loop.completed.count)")
    }

    @Test("A slice left open by a closed connection ends with the next one")
    func leftOpen() {
        let loop = Loop()
        let closed = loop.client("closed", cost: 1)
        #expect(closed.slices.begin())
        loop.client("next", cost: 1).receive(1)
        #expect(loop.completed == ["next"])
    }

    @Test("A few of many readable sockets are read in each tick, an occasional client's among the first")
    func reads() {
        let loop = Loop()
        let busy = loop.client("busy", of: "busy", cost: 1000)
        busy.receive(1)
        var readClients: [String] = []
        for number in 0..<500 { loop.client("many", of: "many", cost: 1).slices.read { readClients.append("many\(number)") } }
        #expect(readClients.count == 50)
        loop.client("one", of: "one", cost: 1).slices.read { readClients.append("one") }
        loop.tick()
        #expect(readClients.firstIndex(of: "one").map { $0 < 52 } ?? false)
        // Each read is charged 8 µs of the 500 µs that a tick has, so a tick adds at most 63.
        #expect(readClients.count <= 50 + 63)
        for _ in 0..<30 { loop.tick() }
        #expect(readClients.count == 501)
    }

    @Test("Writes beyond a tick's time budget wait for the next tick")
    func writesBeyondTickTimeBudgetWaitForNextTick() {
        let loop = Loop()
        let clients = (0..<300).map { _ in loop.client("many", cost: 1) }
        var written = 0
        for client in clients { client.slices.write { written += 1 } }
        #expect(written == 125)
        for _ in 0..<10 { loop.tick() }
        #expect(written == 300)
    }

    @Test("Data written within a slice is flushed once, at its end")
    func flushedOnce() {
        let loop = Loop()
        let client = loop.client("a", cost: 10)
        var flushes: [Int] = []
        client.slices.beforeEnd = { flushes.append(loop.completed.count) }
        client.receive(20)
        #expect(flushes == [20])
    }
}

@Suite("Queue of waiting slices")
struct RoundRobinQueueTests {
    @Test("Groups take turns, and so do the members of a group")
    func groupsTakeTurns() {
        var queue = RoundRobinQueue<String, Int>()
        for member in 1...4 { queue.append(member, of: "many") }
        queue.append(10, of: "few")
        queue.append(5, of: "many")
        queue.append(20, of: "other")
        var order: [Int] = []
        while let member = queue.popFirst() { order.append(member) }
        #expect(order == [1, 10, 20, 2, 3, 4, 5])
        #expect(queue.isEmpty)
    }

    @Test("A member that returns waits for the other groups")
    func returningMember() {
        var queue = RoundRobinQueue<String, Int>()
        queue.append(1, of: "a")
        queue.append(2, of: "b")
        var order = [queue.popFirst()]
        queue.append(1, of: "a")
        for _ in 0..<3 { order.append(queue.popFirst()) }
        #expect(order == [1, 2, 1, nil])
    }
}

extension ConnectionSlices {
    fileprivate func read(_ read: @escaping () -> Void) { if beginRead() { read() } else { readLater(read) } }

    fileprivate func write(_ write: @escaping () -> Void) { if beginWrite() { write() } else { writeLater(write) } }
}

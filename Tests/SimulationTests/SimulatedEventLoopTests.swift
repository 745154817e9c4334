import NIOCore
import Testing

@testable import Simulation

@Suite("Event loops on virtual time")
struct SimulatedEventLoopTests {
    /// Whether something happens within a millisecond that `plan` has a loop do.
    private func happens(_ plan: (SimulatedEventLoop, @escaping @Sendable () -> Void) -> Void) -> Bool {
        let timeline = Timeline()
        let loop = SimulatedEventLoop(timeline: timeline)
        nonisolated(unsafe) var hasHappened = false
        plan(loop) { hasHappened = true }
        timeline.run(until: timeline.now + 1_000_000) { false }
        return hasHappened
    }

    @Test("what is planned from outside happens")
    func planned() {
        #expect(happens { loop, body in loop.execute(body) })
    }

    @Test("what is planned by somebody who has entered the loop happens, also when nothing else wakes it")
    func entered() {
        #expect(happens { loop, body in loop.enter { loop.execute(body) } })
    }

    @Test("a timer that is planned inside goes off in time")
    func timer() {
        #expect(happens { loop, body in loop.enter { _ = loop.scheduleTask(in: .microseconds(500), body) } })
    }
}

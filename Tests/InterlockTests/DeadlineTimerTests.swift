import InterlockCore
import NIOCore
import NIOPosix
import Testing

@testable import Interlock

@Suite("Timers")
struct DeadlineTimerTests {
    /// Returns whether a timer that is due immediately fires before a later one.
    private static func hasFired(isRetained: Bool) async throws -> Bool {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        return try await eventLoop.flatSubmit {
            let time = TimeSource.system
            let deadlines = Deadlines(eventLoop: eventLoop, time: time)
            let ended = eventLoop.makePromise(of: Bool.self)
            let now = time.now()
            var hasFired = false
            let timer = DeadlineTimer()
            var owned: DeadlineTimer? = DeadlineTimer()
            owned?.set(at: now, on: deadlines) { hasFired = true }
            if !isRetained { owned = nil }
            timer.set(at: now.advanced(byMilliseconds: 1), on: deadlines) {
                withExtendedLifetime((timer, owned, deadlines)) { ended.succeed(hasFired) }
            }
            return ended.futureResult
        }.get()
    }

    @Test("A timer fires")
    func retained() async throws {
        let hasFired = try await Self.hasFired(isRetained: true)
        #expect(hasFired)
    }

    @Test("A timer whose owner is gone does not fire")
    func timerWhoseOwnerIsGoneDoesNotFire() async throws {
        let hasFired = try await Self.hasFired(isRetained: false)
        #expect(!hasFired)
    }
}

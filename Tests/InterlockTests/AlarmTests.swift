import InterlockCore
import NIOCore
import NIOPosix
import Testing

@testable import Interlock

@Suite("Alarms")
struct AlarmTests {
    /// Returns whether an alarm that was due at once went off before a later one.
    private static func hasGoneOff(isKept: Bool) async throws -> Bool {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        return try await eventLoop.flatSubmit {
            let time = TimeSource.system
            let deadlines = Deadlines(eventLoop: eventLoop, time: time)
            let ended = eventLoop.makePromise(of: Bool.self)
            let now = time.now()
            var hasGoneOff = false
            let alarm = Alarm()
            var owned: Alarm? = Alarm()
            owned?.set(at: now, on: deadlines) { hasGoneOff = true }
            if !isKept { owned = nil }
            alarm.set(at: now.advanced(byMilliseconds: 1), on: deadlines) {
                withExtendedLifetime((alarm, owned, deadlines)) { ended.succeed(hasGoneOff) }
            }
            return ended.futureResult
        }.get()
    }

    @Test("An alarm fires")
    func kept() async throws {
        let hasGoneOff = try await Self.hasGoneOff(isKept: true)
        #expect(hasGoneOff)
    }

    @Test("An alarm whose owner is gone does not fire")
    func dropped() async throws {
        let hasGoneOff = try await Self.hasGoneOff(isKept: false)
        #expect(!hasGoneOff)
    }
}

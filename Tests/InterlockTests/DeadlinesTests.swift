import InterlockCore
import NIOCore
import NIOPosix
import Testing

@testable import Interlock

@Suite("Deadlines")
struct DeadlinesTests {
    @Test("A deadline in the distant past fires immediately")
    func distantPast() async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        try await eventLoop.flatSubmit {
            let deadlines = Deadlines(eventLoop: eventLoop, time: .system)
            let ended = eventLoop.makePromise(of: Void.self)
            deadlines.schedule(at: Instant(nanoseconds: .min)) { withExtendedLifetime(deadlines) { ended.succeed() } }
            return ended.futureResult
        }.get()
    }
}

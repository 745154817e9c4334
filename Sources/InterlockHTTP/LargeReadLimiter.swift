internal import DequeModule
package import NIOCore

/// A connection that makes large reads, and waits for its turn to do so.
protocol LargeReader: AnyObject {
    /// Uses the turn.
    /// - Returns: whether a read was made, after which `ended` must follow.
    func readInTurn() -> Bool
}

/// Limits how many connections make large reads in one tick of the event loop, because the loop's other work waits for
/// all of them. Waiting readers are served in order. Confined to the event loop.
package final class LargeReadLimiter {
    /// The size of a read, in bytes, from which the connection's next read is expected to be large.
    static let size = 1 << 14
    /// The maximum number of concurrent turns.
    private static let maximumTurns = 4
    /// How long a slow server's turn may delay others.
    private static let slowTurnTimeout = TimeAmount.microseconds(250)

    private let eventLoop: any EventLoop
    private var waiting: Deque<any LargeReader> = []
    private var inFlight = 0
    private var isCheckScheduled = false

    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func requestTurn(_ reader: any LargeReader) {
        waiting.append(reader)
        admit()
        scheduleCheck()
    }

    /// Ends a turn.
    func ended() {
        // A turn that took too long is no longer counted.
        inFlight = max(0, inFlight - 1)
        admit()
    }

    private func admit() {
        while inFlight < Self.maximumTurns, let next = waiting.popFirst() {
            inFlight += 1
            if !next.readInTurn() { inFlight -= 1 }
        }
    }

    private func scheduleCheck() {
        guard !waiting.isEmpty, !isCheckScheduled else { return }
        isCheckScheduled = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.slowTurnTimeout) { [self] in
            isCheckScheduled = false
            inFlight = 0
            admit()
            scheduleCheck()
        }
    }
}

internal import DequeModule
package import NIOCore

/// A connection that makes large reads, and waits for a turn before each.
protocol LargeReader: AnyObject {
    /// Reads in the turn that has come, if the read is still needed.
    /// - Returns: whether a read was made, after which `endTurn` must follow.
    func readInTurn() -> Bool
}

/// Limits how many connections make large reads in one tick of the event loop, because the loop's other work waits for
/// all of them. Waiting readers are served in order. Confined to the event loop.
package final class LargeReadLimiter {
    /// The size of a read, in bytes, from which the connection's next read is expected to be large.
    static let minimumSize = 1 << 14
    /// The maximum number of concurrent turns.
    private static let maximumTurns = 4
    /// The time after which slow servers' turns no longer delay other readers.
    private static let slowTurnTimeout = TimeAmount.microseconds(250)

    private let eventLoop: any EventLoop
    private var waiting: Deque<any LargeReader> = []
    /// The number of turns in progress. While readers wait, `scheduleCheck` resets it to end slow turns.
    private var turnCount = 0
    private var isCheckScheduled = false

    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    /// Calls the reader's `readInTurn` when its turn comes, possibly before this method returns.
    func requestTurn(_ reader: any LargeReader) {
        waiting.append(reader)
        admit()
        scheduleCheck()
    }

    /// Ends a turn.
    func endTurn() {
        // A turn that took too long is no longer counted.
        turnCount = max(0, turnCount - 1)
        admit()
    }

    private func admit() {
        while turnCount < Self.maximumTurns, let next = waiting.popFirst() {
            turnCount += 1
            if !next.readInTurn() { turnCount -= 1 }
        }
    }

    private func scheduleCheck() {
        guard !waiting.isEmpty, !isCheckScheduled else { return }
        isCheckScheduled = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.slowTurnTimeout) { [self] in
            isCheckScheduled = false
            turnCount = 0
            admit()
            scheduleCheck()
        }
    }
}

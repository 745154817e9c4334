internal import DequeModule
package import NIOCore

/// A connection that reads much data at once, and waits for its turn to do so.
protocol LargeReader: AnyObject {
    /// Uses the turn.
    /// - Returns: whether a read was made, after which `ended` must follow.
    func readInTurn() -> Bool
}

/// Limits how many connections read much data in one tick of the event loop: the loop's other work would wait for all
/// of them. Waiting readers are served in order. Confined to the event loop.
package final class LargeReads {
    /// The size of a read, in bytes, from which the connection's next read is expected to be large.
    static let size = 1 << 14
    /// The most concurrent turns.
    private static let most = 4
    /// The time after which a slow server's turn no longer delays others.
    private static let patience = TimeAmount.microseconds(250)

    private let eventLoop: any EventLoop
    private var waiting: Deque<any LargeReader> = []
    private var inFlight = 0
    private var isCheckPlanned = false

    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func ask(_ reader: any LargeReader) {
        waiting.append(reader)
        admit()
        planCheck()
    }

    /// Ends a turn.
    func ended() {
        // A turn that took too long is no longer counted.
        inFlight = max(0, inFlight - 1)
        admit()
    }

    private func admit() {
        while inFlight < Self.most, let next = waiting.popFirst() {
            inFlight += 1
            if !next.readInTurn() { inFlight -= 1 }
        }
    }

    private func planCheck() {
        guard !waiting.isEmpty, !isCheckPlanned else { return }
        isCheckPlanned = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.patience) { [self] in
            isCheckPlanned = false
            inFlight = 0
            admit()
            planCheck()
        }
    }
}

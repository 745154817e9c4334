internal import DequeModule
package import NIOCore

/// What reads much at a time when its turn comes.
protocol LargeReader: AnyObject {
    /// It has its turn.
    /// - Returns: whether it reads, after which `ended` must follow.
    func readInTurn() -> Bool
}

/// Lets a few connections at a time read much in one turn of the event loop: whatever else the loop serves would wait for all of them.
/// Whoever waits is served in order. Confined to the loop.
package final class LargeReads {
    /// A connection that has read so much at once is likely to again.
    static let size = 1 << 14
    /// At a time.
    private static let most = 4
    /// Those whose servers are slow keep no turn from others for longer.
    private static let patience = TimeAmount.microseconds(250)

    private let eventLoop: any EventLoop
    private var waiting: Deque<any LargeReader> = []
    private var underWay = 0
    private var isLookPlanned = false

    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func ask(_ reader: any LargeReader) {
        waiting.append(reader)
        admit()
        planLook()
    }

    /// A turn is over.
    func ended() {
        // A turn that took too long has been written off already.
        underWay = max(0, underWay - 1)
        admit()
    }

    private func admit() {
        while underWay < Self.most, let next = waiting.popFirst() {
            underWay += 1
            if !next.readInTurn() { underWay -= 1 }
        }
    }

    private func planLook() {
        guard !waiting.isEmpty, !isLookPlanned else { return }
        isLookPlanned = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.patience) { [self] in
            isLookPlanned = false
            underWay = 0
            admit()
            planLook()
        }
    }
}

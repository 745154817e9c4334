internal import NIOCore

/// The connections of a listener that have pending writes. One task at the end of the tick flushes them all. Confined
/// to the event loop.
final class FlushQueue {
    private let eventLoop: any EventLoop
    private var scheduled: [any FlushedConnection] = []

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    /// Flushes the connection at the end of the tick.
    func scheduleFlush(of connection: any FlushedConnection) {
        scheduled.append(connection)
        guard scheduled.count == 1 else { return }
        eventLoop.assumeIsolated().execute { [self] in
            let connections = scheduled
            scheduled.removeAll(keepingCapacity: true)
            for connection in connections { connection.flush() }
        }
    }
}

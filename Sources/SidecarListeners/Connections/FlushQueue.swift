internal import NIOCore

/// The connections of a listener with pending writes. One task at the end of the tick flushes them all. Confined to
/// their event loop.
final class FlushQueue {
    private let eventLoop: any EventLoop
    private var planned: [any FlushedConnection] = []

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func plan(_ connection: any FlushedConnection) {
        planned.append(connection)
        guard planned.count == 1 else { return }
        eventLoop.assumeIsolated().execute { [self] in
            let connections = planned
            planned.removeAll(keepingCapacity: true)
            for connection in connections { connection.flush() }
        }
    }
}

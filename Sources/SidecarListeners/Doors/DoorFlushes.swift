internal import NIOCore

/// The connections of a door that have something to write: all are flushed at the end of the tick, by one task of the loop. Confined to
/// their event loop.
final class DoorFlushes {
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

internal import NIOCore

/// The connections that have something to write: all are flushed at the end of the tick, by one task of the loop.
final class RESPFlushes {
    private let eventLoop: any EventLoop
    private var planned: [RESPConnection] = []

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func plan(_ connection: RESPConnection) {
        planned.append(connection)
        guard planned.count == 1 else { return }
        eventLoop.assumeIsolated().execute { [self] in
            let connections = planned
            planned.removeAll(keepingCapacity: true)
            for connection in connections { connection.flushNow() }
        }
    }
}

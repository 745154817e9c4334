internal import NIOCore

/// Detects the loss of a linked lease by watching the lease's connection. Confined to its event loop.
final class LeaseConnectionMonitor {
    private enum State {
        /// The next ping is scheduled or in flight.
        case watching(ping: Scheduled<Void>)
        /// A release call is in flight.
        case releasing
        case ended(wasReleased: Bool)
    }

    private let connection: DedicatedConnection
    private let eventLoop: any EventLoop
    private let pingInterval: TimeAmount
    private let onEnd: (_ isLost: Bool) -> Void
    /// The state; `nil` before `start`.
    private var state: State?

    /// The maximum interval between two pings.
    private static let maximumPingInterval = Duration.seconds(5)
    /// The minimum interval between two pings, used for leases shorter than 80 ms.
    private static let minimumPingInterval = Duration.milliseconds(20)

    init(connection: DedicatedConnection, ttl: Duration, eventLoop: any EventLoop, onEnd: @escaping (_ isLost: Bool) -> Void) {
        self.connection = connection
        self.eventLoop = eventLoop
        pingInterval = TimeAmount(max(Self.minimumPingInterval, min(Self.maximumPingInterval, ttl / 4)))
        self.onEnd = onEnd
    }

    /// Returns a linked lease that is lost when its connection closes. Must be called on the event loop.
    /// - Parameter connection: the connection on which the lease was acquired. It must not carry other calls.
    static func makeLinkedLease(
        _ lease: Lease, connection: DedicatedConnection, eventLoop: any EventLoop, metrics: SidecarClientMetrics
    ) -> LinkedLease {
        let (losses, continuation) = AsyncStream.makeStream(of: LeaseLoss.self)
        let monitor = LeaseConnectionMonitor(connection: connection, ttl: lease.ttl, eventLoop: eventLoop) { isLost in
            if isLost { continuation.yield(.disconnected) }
            continuation.finish()
        }
        monitor.start()
        let boundMonitor = NIOLoopBound(monitor, eventLoop: eventLoop)
        let releaseCall = LockCalls.Release(name: lease.name, token: lease.token, fence: lease.expectedFence)
        return LinkedLease(lease, losses: losses) {
            try await metrics.counting {
                try await eventLoop.flatSubmit {
                    let promise = eventLoop.makePromise(of: Bool.self)
                    boundMonitor.value.release(releaseCall) { promise.completeWith($0.mapError { $0 as any Error }) }
                    return promise.futureResult
                }.get()
            }
        } onDrop: {
            eventLoop.execute { boundMonitor.value.end() }
        }
    }

    private func start() {
        let onClose = connection.onClose
        connection.onClose = { [weak self] in
            onClose?()
            self?.connectionClosed()
        }
        // The connection may have been lost right after the grant.
        guard !connection.isClosed else { return connectionClosed() }
        schedulePing()
    }

    /// Closes the connection of a lease that is no longer needed, so that the sidecar releases the lease.
    func end() {
        guard case .watching(let ping) = state else { return }
        ping.cancel()
        state = .ended(wasReleased: true)
        connection.close()
        onEnd(false)
    }

    /// Sends the release, closes the connection, and calls `completion` with the outcome.
    func release(_ call: LockCalls.Release, completion: @escaping (Result<Bool, InterlockError>) -> Void) {
        guard case .watching(let ping) = state else {
            // A repeated release has the outcome of the first, or `true` while the first is in flight.
            if case .ended(let wasReleased) = state { return completion(.success(wasReleased)) }
            return completion(.success(true))
        }
        ping.cancel()
        state = .releasing
        connection.send(call) { [self] result in
            state = .ended(wasReleased: (try? result.get()) ?? false)
            connection.close()
            onEnd(false)
            completion(result)
        }
    }

    /// Schedules a ping. Closes the connection if the ping gets no answer within the interval.
    private func schedulePing() {
        let ping = eventLoop.assumeIsolated().scheduleTask(in: pingInterval) { [weak self] in
            guard let self, case .watching = state else { return }
            connection.send(StatusCalls.Ping(), timeout: pingInterval) { [weak self] result in
                guard let self, case .watching = state else { return }
                if case .failure = result { connection.close() } else { schedulePing() }
            }
        }
        state = .watching(ping: ping)
    }

    private func connectionClosed() {
        switch state {
        case .watching(let ping): ping.cancel()
        case nil: break
        case .releasing, .ended: return
        }
        state = .ended(wasReleased: false)
        onEnd(true)
    }
}

internal import NIOCore

/// Watches the connection of one linked lease. Confined to its event loop.
final class LeaseConnectionMonitor {
    private enum State {
        case watching(Scheduled<Void>)
        /// A release call is in flight.
        case releasing
        case ended(wasReleased: Bool)
    }

    private let connection: DedicatedConnection
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let onEnd: (_ isLost: Bool) -> Void
    /// `nil` before `start`.
    private var state: State?

    /// The maximum interval between two pings.
    private static let maximumInterval = Duration.seconds(5)
    /// The minimum interval between two pings, used for leases shorter than 80 ms.
    private static let minimumInterval = Duration.milliseconds(20)

    init(connection: DedicatedConnection, ttl: Duration, eventLoop: any EventLoop, onEnd: @escaping (_ isLost: Bool) -> Void) {
        self.connection = connection
        self.eventLoop = eventLoop
        interval = TimeAmount(max(Self.minimumInterval, min(Self.maximumInterval, ttl / 4)))
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
        let call = LockCalls.Release(name: lease.name, token: lease.token, fence: lease.expectedFence)
        return LinkedLease(lease, losses: losses) {
            try await metrics.counting {
                try await eventLoop.flatSubmit {
                    let promise = eventLoop.makePromise(of: Bool.self)
                    boundMonitor.value.release(call) { promise.completeWith($0.mapError { $0 as any Error }) }
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
        planCheck()
    }

    /// Closes the connection of a lease that is no longer needed, so that the sidecar releases it.
    func end() {
        guard case .watching(let check) = state else { return }
        check.cancel()
        state = .ended(wasReleased: true)
        connection.close()
        onEnd(false)
    }

    func release(_ call: LockCalls.Release, completion: @escaping (Result<Bool, InterlockError>) -> Void) {
        guard case .watching(let check) = state else {
            // A repeated release returns the outcome of the first, or `true` while that one is in flight.
            if case .ended(let wasReleased) = state { return completion(.success(wasReleased)) }
            return completion(.success(true))
        }
        check.cancel()
        state = .releasing
        connection.send(call) { [self] result in
            state = .ended(wasReleased: (try? result.get()) ?? false)
            connection.close()
            onEnd(false)
            completion(result)
        }
    }

    /// Schedules a ping. If the ping is not answered within the interval, the connection is considered lost and closed.
    private func planCheck() {
        let check = eventLoop.assumeIsolated().scheduleTask(in: interval) { [weak self] in
            guard let self, case .watching = state else { return }
            connection.send(StatusCalls.Ping(), timeout: interval) { [weak self] result in
                guard let self, case .watching = state else { return }
                if case .failure = result { connection.close() } else { planCheck() }
            }
        }
        state = .watching(check)
    }

    private func connectionClosed() {
        switch state {
        case .watching(let check): check.cancel()
        case nil: break
        case .releasing, .ended: return
        }
        state = .ended(wasReleased: false)
        onEnd(true)
    }
}

internal import NIOCore

/// A lease that the sidecar extends for as long as a connection of this process lives. It ends when it is released, when its
/// client is closed, and when this value is dropped; then the sidecar releases the lock.
///
/// When the sidecar loses the lease it closes the connection; when the connection is lost otherwise, nobody extends the lease
/// any more. Both are told as a loss, the latter within half of the lease's ttl, before the lease can have lapsed.
public final class LinkedLease: Sendable {
    /// Why a linked lease is one no longer.
    public struct Loss: Hashable, Sendable, CustomStringConvertible {
        /// The lock's name.
        public var name: String

        /// A sentence for people.
        public var description: String {
            "the lease of \(name) is lost: the sidecar ended its connection, or there is no connection any more"
        }
    }

    /// As it was granted. It is valid until the loss, also after `validity`.
    public let lease: SidecarLease
    /// Has one element when the lease is lost, and ends; ends without one when it is released. For one reader.
    public let losses: AsyncStream<Loss>
    /// The owner chose the token.
    private let isOwners: Bool
    private let eventLoop: any EventLoop
    private let keeper: NIOLoopBound<LinkedLeaseKeeper>

    /// Called on the event loop.
    /// - Parameters:
    ///   - isOwners: its owner chose the token.
    ///   - connection: the one that the lease was acquired on, and nothing else is done on.
    init(_ lease: SidecarLease, ttl: Duration, isOwners: Bool, connection: OwnConnection, eventLoop: any EventLoop) {
        self.lease = lease
        self.isOwners = isOwners
        self.eventLoop = eventLoop
        let (losses, continuation) = AsyncStream.makeStream(of: Loss.self)
        self.losses = losses
        let keeper = LinkedLeaseKeeper(connection: connection, ttl: ttl, eventLoop: eventLoop) { isLost in
            if isLost { continuation.yield(Loss(name: lease.name)) }
            continuation.finish()
        }
        keeper.start()
        self.keeper = NIOLoopBound(keeper, eventLoop: eventLoop)
    }

    deinit {
        eventLoop.execute { [keeper] in keeper.value.end() }
    }

    /// Releases the lock, also when the task is cancelled.
    /// - Returns: `false` when the lease was lost before.
    /// - Throws: `SidecarClientError` when nobody knows: the connection was lost meanwhile.
    @discardableResult
    public func release() async throws -> Bool {
        let call = LockCalls.Release(name: lease.name, token: lease.token, fence: isOwners ? lease.fence : nil)
        return try await eventLoop.flatSubmit { [keeper, eventLoop] in
            let promise = eventLoop.makePromise(of: Bool.self)
            keeper.value.release(call) { promise.completeWith($0.mapError { $0 as any Error }) }
            return promise.futureResult
        }.get()
    }
}

/// Watches over the connection of one linked lease. Confined to its event loop.
final class LinkedLeaseKeeper {
    private enum State {
        case watching(Scheduled<Void>)
        /// The release is on its way.
        case releasing
        case over(wasReleased: Bool)
    }

    private let connection: OwnConnection
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let onEnd: (_ isLost: Bool) -> Void
    /// `nil` before `start`.
    private var state: State?

    /// The longest pause between two signs of life.
    private static let longestInterval = Duration.seconds(5)
    /// The shortest, for leases that are too short to be watched well.
    private static let shortestInterval = Duration.milliseconds(20)

    init(connection: OwnConnection, ttl: Duration, eventLoop: any EventLoop, onEnd: @escaping (_ isLost: Bool) -> Void) {
        self.connection = connection
        self.eventLoop = eventLoop
        interval = TimeAmount(max(Self.shortestInterval, min(Self.longestInterval, ttl / 4)))
        self.onEnd = onEnd
    }

    func start() {
        let onClose = connection.onClose
        connection.onClose = { [weak self] in
            onClose?()
            self?.isDisconnected()
        }
        // It may have been lost together with the grant.
        guard !connection.isClosed else { return isDisconnected() }
        planCheck()
    }

    /// The lease is not wanted any more: the sidecar releases it when the connection ends.
    func end() {
        guard case .watching(let check) = state else { return }
        check.cancel()
        state = .over(wasReleased: true)
        connection.close()
        onEnd(false)
    }

    func release(_ call: LockCalls.Release, completion: @escaping (Result<Bool, SidecarClientError>) -> Void) {
        guard case .watching(let check) = state else {
            // Once is enough: whoever asks again is told the same as the loss would tell.
            if case .over(let wasReleased) = state { return completion(.success(wasReleased)) }
            return completion(.success(true))
        }
        check.cancel()
        state = .releasing
        connection.send(call) { [self] result in
            state = .over(wasReleased: (try? result.get()) ?? false)
            connection.close()
            onEnd(false)
            completion(result)
        }
    }

    /// A sign of life is answered within the interval, or the connection is as good as lost.
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

    private func isDisconnected() {
        switch state {
        case .watching(let check): check.cancel()
        case nil: break
        case .releasing, .over: return
        }
        state = .over(wasReleased: false)
        onEnd(true)
    }
}

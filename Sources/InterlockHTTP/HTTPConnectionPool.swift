internal import DequeModule
package import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import NIOTLS

/// The connections to one origin, used again and again: the one that was used last first. Confined to its event loop.
package final class HTTPConnectionPool {
    package struct Settings: Sendable {
        /// For the connection and the handshake.
        package var connectTimeout: TimeAmount
        /// One that nobody has used for so long is closed.
        package var idleTimeout: TimeAmount
        /// At a time; whoever comes when all are in use waits.
        package var mostConnections: Int

        package init(connectTimeout: TimeAmount, idleTimeout: TimeAmount, mostConnections: Int) {
            self.connectTimeout = connectTimeout
            self.idleTimeout = idleTimeout
            self.mostConnections = mostConnections
        }
    }

    private let origin: HTTPOrigin
    private let settings: Settings
    let eventLoop: any EventLoop
    /// The one that was used last is the last.
    private var idle: Deque<HTTPClientConnection> = []
    private var connections: [ObjectIdentifier: HTTPClientConnection] = [:]
    private var connecting = 0
    private var waiting: Deque<(receiver: any HTTPClientReceiver, since: NIODeadline)> = []
    private var sweep: Scheduled<Void>?
    private var isClosed = false

    package init(_ origin: HTTPOrigin, settings: Settings, eventLoop: any EventLoop) {
        self.origin = origin
        self.settings = settings
        self.eventLoop = eventLoop
    }

    /// Finds a connection for a request, or makes one: `connected` or `notConnected` is called, possibly before this returns.
    package func lease(for receiver: any HTTPClientReceiver) {
        while let connection = idle.popLast() {
            if connection.isOpen { return connection.begin(for: receiver) }
        }
        waiting.append((receiver, .now()))
        connectIfNeeded()
    }

    /// It waits for no connection any more. O(n) in those who wait.
    package func cancel(_ receiver: any HTTPClientReceiver) {
        waiting.removeAll { $0.receiver === receiver }
    }

    /// Requests under way go on; no connection is kept after them.
    package func close() {
        isClosed = true
        sweep?.cancel()
        sweep = nil
        for connection in idle { connection.close() }
        idle = []
    }

    // MARK: Connecting

    private func connectIfNeeded() {
        guard waiting.count > connecting, connections.count + connecting < settings.mostConnections else { return }
        connecting += 1
        let begun = NIODeadline.now()
        let end = begun + settings.connectTimeout
        ClientBootstrap(group: eventLoop)
            .connectTimeout(settings.connectTimeout)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelInitializer { [origin] channel in
                channel.eventLoop.makeCompletedFuture { try origin.secure(channel) }
            }
            .connect(host: origin.host, port: origin.port)
            .flatMap { [origin] channel in Self.handshake(on: channel, isAwaited: origin.tls != nil, until: end) }
            .assumeIsolated().whenComplete { [self] result in
                connecting -= 1
                finished(
                    result.flatMap { channel in Result { try HTTPClientConnection.handlers(pool: self, of: channel) } }, begun)
            }
    }

    private static func handshake(
        on channel: any Channel, isAwaited: Bool, until end: NIODeadline
    ) -> EventLoopFuture<any Channel> {
        guard isAwaited else { return channel.eventLoop.makeSucceededFuture(channel) }
        let done = channel.eventLoop.makePromise(of: Void.self)
        do {
            try channel.pipeline.syncOperations.addHandler(HandshakeWatch(done, until: end))
        } catch {
            done.fail(error)
        }
        return done.futureResult.map { channel }
    }

    private func finished(_ result: Result<HTTPClientConnection, any Error>, _ begun: NIODeadline) {
        switch result {
        case .success(let connection):
            connections[ObjectIdentifier(connection)] = connection
            free(connection)
        case .failure(let error):
            // Whoever came later is not told of an attempt that was not its own.
            if let first = waiting.first, first.since <= begun { waiting.removeFirst().receiver.notConnected(error) }
            connectIfNeeded()
        }
    }

    // MARK: What connections tell

    /// It has carried its request, and may carry another.
    func free(_ connection: HTTPClientConnection) {
        if let next = waiting.popFirst() { return connection.begin(for: next.receiver) }
        guard !isClosed else { return connection.close() }
        connection.idleSince = .now()
        idle.append(connection)
        planSweep()
    }

    func closed(_ connection: HTTPClientConnection) {
        connections[ObjectIdentifier(connection)] = nil
        idle.removeAll { $0 === connection }
        connectIfNeeded()
    }

    /// Closes what has been idle for too long; looks again when the next one may be.
    private func planSweep() {
        guard sweep == nil, let oldest = idle.first else { return }
        let sweep = eventLoop.assumeIsolated().scheduleTask(deadline: oldest.idleSince + settings.idleTimeout) { [self] in
            self.sweep = nil
            let end = NIODeadline.now() - settings.idleTimeout
            while let oldest = idle.first, oldest.idleSince <= end { idle.removeFirst().close() }
            planSweep()
        }
        self.sweep = sweep
    }
}

/// Tells when the handshake is done, or why it never will be.
private final class HandshakeWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var done: EventLoopPromise<Void>?
    private let deadline: NIODeadline
    private var timeout: Scheduled<Void>?

    init(_ done: EventLoopPromise<Void>, until deadline: NIODeadline) {
        self.done = done
        self.deadline = deadline
    }

    private func end(_ result: Result<Void, any Error>) {
        timeout?.cancel()
        timeout = nil
        let done = done
        self.done = nil
        done?.completeWith(result)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timeout = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
            end(.failure(ChannelError.connectTimeout(.zero)))
            context.close(promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { end(.success(())) }
        context.fireUserInboundEventTriggered(event)
        // There is nothing more to watch.
        if done == nil { context.pipeline.syncOperations.removeHandler(self, promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard done != nil else { return context.fireErrorCaught(error) }
        end(.failure(error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(.failure(HTTPClientConnection.Closed()))
        context.fireChannelInactive()
    }
}

internal import DequeModule
package import NIOCore
internal import NIOHTTP1
internal import NIOSSL
internal import NIOTLS

/// The reusable connections to one origin. A request gets the most recently used HTTP/1.1 connection, or the first
/// HTTP/2 connection with free capacity. Confined to its event loop.
package final class HTTPConnectionPool: HTTPClientConnectionOwner {
    package struct Settings: Sendable {
        /// The time limit for the connection and its TLS handshake.
        package var connectTimeout: TimeAmount
        /// The lifetime of an unused connection, unless the server announces a shorter one.
        package var idleTimeout: TimeAmount
        /// The age after which a connection accepts no further request, because its host's name may resolve to other
        /// addresses by then; `nil` for no limit.
        package var maximumAge: TimeAmount?
        /// The maximum number of concurrent connections. Requests wait while all of them are in use.
        package var maximumConnections: Int

        package init(
            connectTimeout: TimeAmount, idleTimeout: TimeAmount, maximumAge: TimeAmount? = nil, maximumConnections: Int
        ) {
            self.connectTimeout = connectTimeout
            self.idleTimeout = idleTimeout
            self.maximumAge = maximumAge
            self.maximumConnections = maximumConnections
        }
    }

    /// The minimum interval between two sweeps of unused connections.
    private static let sweepInterval = TimeAmount.milliseconds(100)

    private let origin: HTTPOrigin
    private let settings: Settings
    private let environment: HTTPClientEnvironment
    private let largeReadLimiter: LargeReadLimiter?
    package let eventLoop: any EventLoop
    /// The unused HTTP/1.1 connections, least recently used first.
    private var idle: Deque<HTTPClientConnection> = []
    private var connections: [ObjectIdentifier: HTTPClientConnection] = [:]
    /// The HTTP/2 connections, oldest first.
    private var http2Connections: [HTTP2ClientConnection] = []
    /// The number of connection attempts in progress.
    private var attemptCount = 0
    /// Whether the next connection probably speaks HTTP/2, because the last one did.
    private var expectsHTTP2: Bool
    /// The receivers that wait for a connection, oldest first.
    private var waiting: Deque<(receiver: any HTTPClientReceiver, since: NIODeadline)> = []
    private var sweep: (at: NIODeadline, timer: Scheduled<Void>)?
    private var isClosed = false

    /// Creates a pool.
    /// - Parameter largeReadLimiter: keeps large responses from delaying the event loop's other work; `nil` if the loop
    ///   does no other work.
    package init(
        _ origin: HTTPOrigin, settings: Settings, eventLoop: any EventLoop, environment: HTTPClientEnvironment = .system,
        largeReadLimiter: LargeReadLimiter? = nil
    ) {
        self.origin = origin
        self.environment = environment
        self.largeReadLimiter = largeReadLimiter
        expectsHTTP2 = origin.speaksHTTP2
        self.settings = settings
        self.eventLoop = eventLoop
    }

    /// Finds or opens a connection for a request. Calls the receiver's `connectionEstablished` or
    /// `connectionFailed`, possibly before this method returns.
    /// - Parameter avoidsUnused: whether to skip unused HTTP/1.1 connections, because one of them has just turned out
    ///   to be stale.
    package func lease(for receiver: any HTTPClientReceiver, avoidsUnused: Bool = false) {
        let now = eventLoop.now
        while !avoidsUnused, let connection = idle.popLast() {
            guard connection.isOpen, now < min(connection.idleDeadline, connection.retiresAt) else {
                connection.close()
                continue
            }
            return connection.begin(for: receiver)
        }
        for connection in http2Connections where connection.isReady && connection.retiresAt <= now { connection.retire() }
        if let connection = http2Connections.first(where: { $0.hasCapacity }) { return connection.begin(for: receiver) }
        waiting.append((receiver, now))
        connectIfNeeded()
    }

    /// Cancels a receiver's wait for a connection. O(n) in waiting receivers.
    package func cancel(_ receiver: any HTTPClientReceiver) {
        waiting.removeAll { $0.receiver === receiver }
        for connection in http2Connections { connection.cancel(receiver) }
    }

    /// Closes the pool. Requests in flight continue, and their connections close after them.
    package func close() {
        isClosed = true
        sweep?.timer.cancel()
        sweep = nil
        for connection in idle { connection.close() }
        idle = []
        // Requests may wait for a connection that is not ready; it closes after them.
        for connection in http2Connections where connection.isReady { connection.retire() }
    }

    // MARK: Connecting

    private func connectIfNeeded() {
        while waiting.count > (attemptCount + http2Connections.count { !$0.isReady }) * expectedRequestCount,
            connections.count + http2Connections.count + attemptCount < settings.maximumConnections
        {
            connect()
        }
    }

    private func connect() {
        attemptCount += 1
        let startedAt = eventLoop.now
        let deadline = startedAt + settings.connectTimeout
        environment.dialer
            .dial(host: origin.host, port: origin.port, timeout: settings.connectTimeout, on: eventLoop) { [origin] channel in
                channel.eventLoop.makeCompletedFuture { try origin.secure(channel) }
            }
            .flatMap { [origin] channel in Self.handshake(on: channel, with: origin, until: deadline) }
            .assumeIsolated().whenComplete { [self] result in
                attemptCount -= 1
                attemptEnded(
                    result.flatMap { established in
                        Result { try serve(established.channel, speaksHTTP2: established.speaksHTTP2) }
                    }, startedAt: startedAt)
            }
    }

    /// The expected number of concurrent requests on a new connection, based on the server's last choice of protocol.
    private var expectedRequestCount: Int { expectsHTTP2 ? HTTP2ClientConnection.assumedStreamCount : 1 }

    private typealias Established = (channel: any Channel, speaksHTTP2: Bool)

    private static func handshake(
        on channel: any Channel, with origin: HTTPOrigin, until deadline: NIODeadline
    ) -> EventLoopFuture<Established> {
        guard origin.tls != nil else { return channel.eventLoop.makeSucceededFuture((channel, origin.speaksHTTP2)) }
        let completion = channel.eventLoop.makePromise(of: String?.self)
        do {
            try channel.pipeline.syncOperations.addHandler(HandshakeResultHandler(completion, until: deadline))
        } catch {
            completion.fail(error)
        }
        return completion.futureResult.map { agreed in (channel, agreed == HTTPProtocol.http2) }
    }

    /// The deadline after which a new connection accepts no further request, spread at random so that connections
    /// opened together do not retire together.
    private var retirementDeadline: NIODeadline {
        guard let maximumAge = settings.maximumAge else { return .distantFuture }
        return eventLoop.now + .nanoseconds(Int64(Double(maximumAge.nanoseconds) * (1 - 0.1 * environment.random())))
    }

    private func serve(_ channel: any Channel, speaksHTTP2: Bool) throws {
        expectsHTTP2 = speaksHTTP2
        guard speaksHTTP2 else {
            let connection = try HTTPClientConnection.installOnConnection(
                channel, owner: self, largeReadLimiter: largeReadLimiter)
            connection.retiresAt = retirementDeadline
            connections[ObjectIdentifier(connection)] = connection
            return takeBack(connection)
        }
        let connection = try HTTP2ClientConnection.installOnConnection(
            channel, pool: self, isTLS: origin.tls != nil, responseTimeout: settings.connectTimeout)
        connection.retiresAt = retirementDeadline
        http2Connections.append(connection)
        capacityAvailable(on: connection)
    }

    private func attemptEnded(_ result: Result<Void, any Error>, startedAt: NIODeadline) {
        switch result {
        case .success: connectIfNeeded()
        case .failure(let error):
            // A failed attempt does not fail requests that arrived after its start.
            if let first = waiting.first, first.since <= startedAt {
                waiting.removeFirst().receiver.connectionFailed(error)
            }
            connectIfNeeded()
        }
    }

    // MARK: Reports from connections

    package func takeBack(_ connection: HTTPClientConnection) {
        let now = eventLoop.now
        guard now < connection.retiresAt else { return connection.close() }
        if let next = waiting.popFirst() { return connection.begin(for: next.receiver) }
        connection.idleDeadline =
            now + min(settings.idleTimeout, connection.keepAliveTimeout?.minusTransitMargin ?? settings.idleTimeout)
        guard !isClosed, now < connection.idleDeadline else { return connection.close() }
        idle.append(connection)
        scheduleSweep(by: connection.idleDeadline)
    }

    package func connectionRetired(_ connection: HTTPClientConnection) {
        connections[ObjectIdentifier(connection)] = nil
        idle.removeAll { $0 === connection }
        connectIfNeeded()
    }

    /// Starts waiting requests on a connection that has free capacity.
    func capacityAvailable(on connection: HTTP2ClientConnection) {
        while connection.hasCapacity, let next = waiting.popFirst() { connection.begin(for: next.receiver) }
        guard connection.isIdle else { return connectIfNeeded() }
        guard !isClosed else { return connection.retire() }
        connection.idleDeadline = eventLoop.now + settings.idleTimeout
        scheduleSweep(by: connection.idleDeadline)
    }

    /// Removes a connection that ended before it was ready, and fails the requests that waited for it.
    func http2ConnectionFailed(_ connection: HTTP2ClientConnection, createdAt: NIODeadline) {
        http2Connections.removeAll { $0 === connection }
        var failing: [any HTTPClientReceiver] = []
        while failing.count < HTTP2ClientConnection.assumedStreamCount, let next = waiting.first,
            next.since <= createdAt
        {
            failing.append(waiting.removeFirst().receiver)
        }
        for receiver in failing { receiver.connectionFailed(HTTPClientConnection.Closed()) }
        connectIfNeeded()
    }

    /// Removes a connection that accepts no further request.
    func http2ConnectionRetired(_ connection: HTTP2ClientConnection) {
        http2Connections.removeAll { $0 === connection }
        connectIfNeeded()
    }

    /// Schedules the closing of unused connections.
    private func scheduleSweep(by deadline: NIODeadline) {
        if let sweep {
            guard deadline < sweep.at else { return }
            sweep.timer.cancel()
        }
        sweep = (deadline, eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in closeUnused() })
    }

    /// Closes expired unused connections. O(n) in unused connections.
    private func closeUnused() {
        sweep = nil
        let now = eventLoop.now
        for connection in idle where connection.idleDeadline <= now { connection.close() }
        for connection in http2Connections where connection.isIdle && connection.idleDeadline <= now { connection.retire() }
        let nextHTTP1Deadline = idle.lazy.map(\.idleDeadline).min() ?? .distantFuture
        let nextHTTP2Deadline = http2Connections.lazy.filter(\.isIdle).map(\.idleDeadline).min() ?? .distantFuture
        let nextDeadline = min(nextHTTP1Deadline, nextHTTP2Deadline)
        guard nextDeadline < .distantFuture else { return }
        // Connections that expire at slightly different times are swept together. `lease` checks their deadlines, so
        // that expired ones are not used.
        scheduleSweep(by: max(nextDeadline, now + Self.sweepInterval))
    }
}

extension TimeAmount {
    /// A server's keep-alive timeout, less a margin for the transit of a request: one second, or half of a timeout of
    /// less than two seconds.
    fileprivate var minusTransitMargin: TimeAmount { max(self - .seconds(1), .nanoseconds(nanoseconds / 2)) }
}

/// Reports the end of the handshake and the protocol that it negotiated, or its failure.
private final class HandshakeResultHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var completion: EventLoopPromise<String?>?
    private let deadline: NIODeadline
    private var timeout: Scheduled<Void>?

    init(_ completion: EventLoopPromise<String?>, until deadline: NIODeadline) {
        self.completion = completion
        self.deadline = deadline
    }

    private func end(_ result: Result<String?, any Error>) {
        timeout?.cancel()
        timeout = nil
        let completion = completion
        self.completion = nil
        completion?.completeWith(result)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        timeout = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in
            end(.failure(ChannelError.connectTimeout(.zero)))
            context.close(promise: nil)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted(let agreed) = event { end(.success(agreed)) }
        context.fireUserInboundEventTriggered(event)
        // After the handshake, this handler is not needed.
        if completion == nil { context.pipeline.syncOperations.removeHandler(self, promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard completion != nil else { return context.fireErrorCaught(error) }
        end(.failure(error))
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(.failure(HTTPClientConnection.Closed()))
        context.fireChannelInactive()
    }
}

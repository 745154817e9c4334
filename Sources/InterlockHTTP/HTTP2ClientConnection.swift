internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2

/// An HTTP/2 connection to a server, which carries many requests concurrently, each on its own stream (RFC 9113).
/// Confined to its event loop.
final class HTTP2ClientConnection: ChannelInboundHandler, HTTPClientConnectionOwner {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private static let settings: HTTP2Settings = [
        HTTP2Setting(parameter: .enablePush, value: 0),
        HTTP2Setting(parameter: .maxHeaderListSize, value: HTTPClientConnection.limits.maxHeaderListSize),
    ]

    /// The maximum number of stream resets, effectively unlimited: the limit protects servers from malicious clients.
    private static let maximumResets = 1_000_000
    /// The maximum number of requests on a connection. Stream IDs end at 2^31, and each request uses two of them.
    private static let maximumRequests = 1 << 29

    /// The number of concurrent streams assumed until the server announces its limit: the minimum that a server should
    /// allow (RFC 9113, section 6.5.2).
    static let assumedStreamCount = 100

    private let isTLS: Bool
    /// The time limit for the server's first settings and for its reply to a PING.
    private let responseTimeout: TimeAmount
    private let pool: HTTPConnectionPool
    /// Whether the server's settings have arrived.
    private(set) var isReady = false
    /// Whether the connection accepts no further request.
    private var isRetired = false
    private var requestCount = 0
    private var context: ChannelHandlerContext?
    private var multiplexer: NIOHTTP2Handler.StreamMultiplexer?
    private var maximumStreams = assumedStreamCount
    /// The receivers whose streams are being created, oldest first.
    private var opening: [any HTTPClientReceiver] = []
    /// The streams and the start times of their requests.
    private var streams: [ObjectIdentifier: (stream: HTTPClientConnection, startedAt: NIODeadline)] = [:]
    private var hasReceivedGoAway = false
    private var lastReadAt = NIODeadline.uptimeNanoseconds(0)
    /// The timer that closes the connection if the server does not respond in time.
    private var responseTimer: Scheduled<Void>?
    private let createdAt: NIODeadline
    /// The deadline at which the connection closes if it stays unused.
    var idleDeadline = NIODeadline.distantFuture
    /// The deadline after which the connection accepts no further request.
    var retiresAt = NIODeadline.distantFuture

    private init(pool: HTTPConnectionPool, isTLS: Bool, responseTimeout: TimeAmount) {
        self.pool = pool
        createdAt = pool.eventLoop.now
        self.isTLS = isTLS
        // Many calls depend on the connection, so it survives pauses that would be too long for a handshake.
        self.responseTimeout = max(responseTimeout, .seconds(1))
    }

    /// Installs the HTTP/2 handlers and this one in a connection's pipeline.
    static func installOnConnection(
        _ channel: any Channel, pool: HTTPConnectionPool, isTLS: Bool, responseTimeout: TimeAmount
    ) throws -> HTTP2ClientConnection {
        let connection = HTTP2ClientConnection(pool: pool, isTLS: isTLS, responseTimeout: responseTimeout)
        let protocolHandler = NIOHTTP2Handler(
            mode: .client, eventLoop: channel.eventLoop, connectionConfiguration: HTTPProtocol.connection(settings),
            streamConfiguration: HTTPProtocol.streams(maximumResets: maximumResets)
        ) { pushed in pushed.close() }
        try channel.pipeline.syncOperations.addHandlers(FrameSplitter(), protocolHandler, connection)
        connection.multiplexer = try protocolHandler.syncMultiplexer()
        connection.startResponseTimer()
        return connection
    }

    // MARK: Requests

    var hasCapacity: Bool { isReady && !isRetired && isOpen && opening.count + streams.count < maximumStreams }

    /// Whether the connection is ready and carries no request. A connection that is not ready may have requests
    /// waiting.
    var isIdle: Bool { isReady && opening.isEmpty && streams.isEmpty }

    private var isOpen: Bool { context?.channel.isActive ?? false }

    func begin(for receiver: any HTTPClientReceiver) {
        guard let multiplexer, let context else { return receiver.connectionFailed(HTTPClientConnection.Closed()) }
        opening.append(receiver)
        requestCount += 1
        if requestCount >= Self.maximumRequests { retire() }
        let boundSelf = NIOLoopBound(self, eventLoop: context.eventLoop)
        let creation = context.eventLoop.makePromise(of: (any Channel).self)
        let stream = NIOLoopBoundBox<HTTPClientConnection?>(nil, eventLoop: context.eventLoop)
        multiplexer.createStreamChannel(promise: creation) { [isTLS] channel in
            channel.eventLoop.makeCompletedFuture {
                stream.value = try HTTPClientConnection.installOnStream(channel, owner: boundSelf.value, isTLS: isTLS)
            }
        }
        creation.futureResult.assumeIsolated().whenComplete { [self] result in
            // The receiver may have cancelled its request meanwhile.
            guard let index = opening.firstIndex(where: { $0 === receiver }) else {
                if case .success(let channel) = result { channel.close(promise: nil) }
                return capacityChanged()
            }
            opening.remove(at: index)
            switch (result, stream.value) {
            // The request would fail: the server has since announced the connection's end.
            case (.success(let channel), _?) where hasReceivedGoAway:
                channel.close(promise: nil)
                pool.lease(for: receiver)
                capacityChanged()
            case (.success, let stream?):
                streams[ObjectIdentifier(stream)] = (stream, pool.eventLoop.now)
                stream.begin(for: receiver, isReused: requestCount > 1)
            case (.success, nil): receiver.connectionFailed(HTTPClientConnection.Closed())
            case (.failure(let error), _): receiver.connectionFailed(error)
            }
        }
    }

    func cancel(_ receiver: any HTTPClientReceiver) { opening.removeAll { $0 === receiver } }

    /// Takes no further request. Requests in flight continue, and the connection closes after the last one.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        pool.http2ConnectionRetired(self)
        if isIdle { context?.close(promise: nil) }
    }

    func takeBack(_ stream: HTTPClientConnection) {}

    func connectionRetired(_ stream: HTTPClientConnection) {
        guard let (_, startedAt) = streams.removeValue(forKey: ObjectIdentifier(stream)) else { return }
        if !stream.isResponseComplete, lastReadAt < startedAt { sendPing() }
        capacityChanged()
    }

    private func capacityChanged() {
        if !isRetired { pool.capacityAvailable(on: self) } else if isIdle { context?.close(promise: nil) }
    }

    /// Sends a PING to check that the server still responds: a server that is down may cause no error.
    private func sendPing() {
        guard responseTimer == nil, isOpen, let context else { return }
        // The timer is set first: the write may fail immediately, and call this method again.
        startResponseTimer()
        write(.ping(HTTP2PingData(withInteger: 0), ack: false), context)
    }

    private func startResponseTimer() {
        let responseTimer = context?.eventLoop.assumeIsolated().scheduleTask(in: responseTimeout) { [self] in
            self.responseTimer = nil
            context?.close(promise: nil)
        }
        self.responseTimer = responseTimer
    }

    private func cancelResponseTimer() {
        responseTimer?.cancel()
        responseTimer = nil
    }

    private func write(_ payload: HTTP2Frame.FramePayload, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: payload)), promise: nil)
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { connectionEnded() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data).payload {
        case .settings(.settings(let settings)):
            isReady = true
            cancelResponseTimer()
            if let limit = settings.last(where: { $0.parameter == .maxConcurrentStreams }) { maximumStreams = limit.value }
            capacityChanged()
        case .ping(_, ack: true): cancelResponseTimer()
        case .goAway(let lastID, _, _):
            hasReceivedGoAway = true
            // NIO ends these streams after this frame, as if they had been cancelled.
            for (stream, _) in streams.values where stream.streamID.map({ $0 > lastID }) ?? true {
                stream.declareUnprocessed()
            }
            retire()
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        lastReadAt = pool.eventLoop.now
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard isReady, error is any NIOHTTP2Error else { return context.close(promise: nil) }
        // NIO does not report whether the error concerns only one stream. If it does, the server still responds, and
        // requests in flight continue.
        retire()
        sendPing()
    }

    func channelInactive(context: ChannelHandlerContext) {
        connectionEnded()
        context.fireChannelInactive()
    }

    private func connectionEnded() {
        context = nil
        multiplexer = nil
        cancelResponseTimer()
        let opening = opening
        self.opening = []
        guard isReady else {
            for receiver in opening { receiver.connectionFailed(HTTPClientConnection.Closed()) }
            guard !isRetired else { return }
            isRetired = true
            return pool.http2ConnectionFailed(self, createdAt: createdAt)
        }
        retire()
        // The requests have not begun, so other connections can carry them.
        for receiver in opening { pool.lease(for: receiver) }
    }
}

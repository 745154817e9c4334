internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2

/// A connection to a server that carries many requests at a time, each on a stream of its own (RFC 9113). Confined to its event loop.
final class HTTP2ClientConnection: ChannelInboundHandler, HTTPClientConnectionHome {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private static let settings: HTTP2Settings = [
        HTTP2Setting(parameter: .enablePush, value: 0),
        HTTP2Setting(parameter: .maxHeaderListSize, value: HTTPClientConnection.limits.maxHeaderListSize),
    ]

    /// So many streams at a time until the server has said how many it takes; that many every server should (section 6.5.2).
    static let assumedStreams = 100

    private let isTLS: Bool
    /// A server that was asked whether it is there must say something within so long.
    private let silenceLimit: TimeAmount
    /// `nil`: no further request is taken.
    private var pool: HTTPConnectionPool?
    private var context: ChannelHandlerContext?
    private var multiplexer: NIOHTTP2Handler.StreamMultiplexer?
    private var mostStreams = assumedStreams
    /// Those who wait until their stream is made.
    private var opening: [ObjectIdentifier: any HTTPClientReceiver] = [:]
    /// Each with when its request began.
    private var streams: [ObjectIdentifier: NIODeadline] = [:]
    private var lastRead = NIODeadline.uptimeNanoseconds(0)
    private var doubt: Scheduled<Void>?
    /// Since when it has carried nothing.
    var idleSince = NIODeadline.uptimeNanoseconds(0)

    private init(pool: HTTPConnectionPool, isTLS: Bool, silenceLimit: TimeAmount) {
        self.pool = pool
        self.isTLS = isTLS
        self.silenceLimit = silenceLimit
    }

    /// Puts between a connection's bytes and their meaning what stands there.
    static func onConnection(
        _ channel: any Channel, pool: HTTPConnectionPool, isTLS: Bool, silenceLimit: TimeAmount
    ) throws -> HTTP2ClientConnection {
        let connection = HTTP2ClientConnection(pool: pool, isTLS: isTLS, silenceLimit: silenceLimit)
        let protocolHandler = NIOHTTP2Handler(
            mode: .client, eventLoop: channel.eventLoop, connectionConfiguration: HTTPProtocol.connection(settings),
            streamConfiguration: HTTPProtocol.streams
        ) { pushed in pushed.close() }
        try channel.pipeline.syncOperations.addHandlers(protocolHandler, connection)
        connection.multiplexer = try protocolHandler.syncMultiplexer()
        return connection
    }

    // MARK: Requests

    var hasRoom: Bool { pool != nil && isOpen && opening.count + streams.count < mostStreams }

    var isIdle: Bool { opening.isEmpty && streams.isEmpty }

    private var isOpen: Bool { context?.channel.isActive ?? false }

    func begin(for receiver: any HTTPClientReceiver) {
        guard let multiplexer, let context else { return receiver.notConnected(HTTPClientConnection.Closed()) }
        let id = ObjectIdentifier(receiver)
        opening[id] = receiver
        let me = NIOLoopBound(self, eventLoop: context.eventLoop)
        let made = context.eventLoop.makePromise(of: (any Channel).self)
        let stream = NIOLoopBoundBox<HTTPClientConnection?>(nil, eventLoop: context.eventLoop)
        multiplexer.createStreamChannel(promise: made) { [isTLS] channel in
            channel.eventLoop.makeCompletedFuture {
                stream.value = try HTTPClientConnection.onStream(channel, home: me.value, isTLS: isTLS)
            }
        }
        made.futureResult.assumeIsolated().whenComplete { [self] result in
            // It may have been given up meanwhile.
            guard let receiver = opening.removeValue(forKey: id) else {
                if case .success(let channel) = result { channel.close(promise: nil) }
                return changed()
            }
            switch (result, stream.value) {
            case (.success, let stream?):
                streams[ObjectIdentifier(stream)] = .now()
                stream.begin(for: receiver)
            case (.success, nil): receiver.notConnected(HTTPClientConnection.Closed())
            case (.failure(let error), _): receiver.notConnected(error)
            }
        }
    }

    func cancel(_ receiver: any HTTPClientReceiver) { opening[ObjectIdentifier(receiver)] = nil }

    /// No further request is sent; those under way go on, and the connection ends with the last.
    func retire() {
        let pool = pool
        self.pool = nil
        pool?.retired(self)
        if isIdle { context?.close(promise: nil) }
    }

    func free(_ stream: HTTPClientConnection) {}

    func closed(_ stream: HTTPClientConnection) {
        guard let begun = streams.removeValue(forKey: ObjectIdentifier(stream)) else { return }
        if !stream.isAnswerWhole, lastRead < begun { ask() }
        changed()
    }

    private func changed() {
        if let pool { pool.hasRoom(self) } else if isIdle { context?.close(promise: nil) }
    }

    /// Nothing came for a request that was given up: the server may not be there any more, which no error tells.
    private func ask() {
        guard doubt == nil, isOpen, let context else { return }
        let asked = NIODeadline.now()
        write(.ping(HTTP2PingData(withInteger: 0), ack: false), context)
        let doubt = context.eventLoop.assumeIsolated().scheduleTask(in: silenceLimit) { [self] in
            self.doubt = nil
            if lastRead < asked { self.context?.close(promise: nil) }
        }
        self.doubt = doubt
    }

    private func write(_ payload: HTTP2Frame.FramePayload, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: payload)), promise: nil)
    }

    // MARK: Channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { ended() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data).payload {
        case .settings(.settings(let settings)):
            if let most = settings.last(where: { $0.parameter == .maxConcurrentStreams }) { mostStreams = most.value }
            changed()
        case .goAway: retire()
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        lastRead = .now()
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // It may concern one stream alone, which NIO does not say; those under way go on where they can.
        if error is any NIOHTTP2Error { retire() } else { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    private func ended() {
        context = nil
        multiplexer = nil
        doubt?.cancel()
        doubt = nil
        let pool = pool
        self.pool = nil
        let opening = opening
        self.opening = [:]
        for receiver in opening.values { receiver.notConnected(HTTPClientConnection.Closed()) }
        pool?.retired(self)
    }
}

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

    /// A server that resets streams has its reasons: no bound of a client's flood.
    private static let mostResets = 1_000_000
    /// The numbers of streams end at 2^31, and each has two.
    private static let mostRequests = 1 << 29

    /// So many streams at a time until the server has said how many it takes; that many every server should (section 6.5.2).
    static let assumedStreams = 100

    private let isTLS: Bool
    /// A server that was asked whether it is there must say something within so long.
    private let silenceLimit: TimeAmount
    private let pool: HTTPConnectionPool
    /// The server has said how many streams it takes.
    private(set) var isReady = false
    /// No further request is taken.
    private var isRetired = false
    private var requests = 0
    private var context: ChannelHandlerContext?
    private var multiplexer: NIOHTTP2Handler.StreamMultiplexer?
    private var mostStreams = assumedStreams
    /// Those who wait until their stream is made.
    private var opening: [ObjectIdentifier: any HTTPClientReceiver] = [:]
    /// Each with when its request began.
    private var streams: [ObjectIdentifier: (stream: HTTPClientConnection, begun: NIODeadline)] = [:]
    private var isToldToGo = false
    private var lastRead = NIODeadline.uptimeNanoseconds(0)
    /// Goes off when the server has not said within a while what it was asked.
    private var doubt: Scheduled<Void>?
    private let madeAt = NIODeadline.now()
    /// The deadline at which the connection closes if it stays unused.
    var unusedUntil = NIODeadline.distantFuture
    /// After this it takes no further request.
    var retiresAt = NIODeadline.distantFuture

    private init(pool: HTTPConnectionPool, isTLS: Bool, silenceLimit: TimeAmount) {
        self.pool = pool
        self.isTLS = isTLS
        // Many calls depend on the connection: a pause that would be too long for a handshake does not end it.
        self.silenceLimit = max(silenceLimit, .seconds(1))
    }

    /// Puts between a connection's bytes and their meaning what stands there.
    static func onConnection(
        _ channel: any Channel, pool: HTTPConnectionPool, isTLS: Bool, silenceLimit: TimeAmount
    ) throws -> HTTP2ClientConnection {
        let connection = HTTP2ClientConnection(pool: pool, isTLS: isTLS, silenceLimit: silenceLimit)
        let protocolHandler = NIOHTTP2Handler(
            mode: .client, eventLoop: channel.eventLoop, connectionConfiguration: HTTPProtocol.connection(settings),
            streamConfiguration: HTTPProtocol.streams(mostResets: mostResets)
        ) { pushed in pushed.close() }
        try channel.pipeline.syncOperations.addHandlers(FrameCutter(), protocolHandler, connection)
        connection.multiplexer = try protocolHandler.syncMultiplexer()
        connection.expectWord()
        return connection
    }

    // MARK: Requests

    var hasRoom: Bool { isReady && !isRetired && isOpen && opening.count + streams.count < mostStreams }

    /// It carries nothing. One that is not ready is waited for.
    var isIdle: Bool { isReady && opening.isEmpty && streams.isEmpty }

    private var isOpen: Bool { context?.channel.isActive ?? false }

    func begin(for receiver: any HTTPClientReceiver) {
        guard let multiplexer, let context else { return receiver.notConnected(HTTPClientConnection.Closed()) }
        let id = ObjectIdentifier(receiver)
        opening[id] = receiver
        requests += 1
        if requests >= Self.mostRequests { retire() }
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
            // It was told so in the meantime, and would fail.
            case (.success(let channel), _?) where isToldToGo:
                channel.close(promise: nil)
                pool.lease(for: receiver)
                changed()
            case (.success, let stream?):
                streams[ObjectIdentifier(stream)] = (stream, .now())
                stream.begin(for: receiver, isReused: requests > 1)
            case (.success, nil): receiver.notConnected(HTTPClientConnection.Closed())
            case (.failure(let error), _): receiver.notConnected(error)
            }
        }
    }

    func cancel(_ receiver: any HTTPClientReceiver) { opening[ObjectIdentifier(receiver)] = nil }

    /// No further request is sent; those under way go on, and the connection ends with the last.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        pool.retired(self)
        if isIdle { context?.close(promise: nil) }
    }

    func free(_ stream: HTTPClientConnection) {}

    func closed(_ stream: HTTPClientConnection) {
        guard let (_, begun) = streams.removeValue(forKey: ObjectIdentifier(stream)) else { return }
        if !stream.isAnswerWhole, lastRead < begun { ask() }
        changed()
    }

    private func changed() {
        if !isRetired { pool.hasRoom(self) } else if isIdle { context?.close(promise: nil) }
    }

    /// The server may not be there any more, or not understood, which no error tells.
    private func ask() {
        guard doubt == nil, isOpen, let context else { return }
        // First: what is written may fail at once, and come back here.
        expectWord()
        write(.ping(HTTP2PingData(withInteger: 0), ack: false), context)
    }

    private func expectWord() {
        let doubt = context?.eventLoop.assumeIsolated().scheduleTask(in: silenceLimit) { [self] in
            self.doubt = nil
            context?.close(promise: nil)
        }
        self.doubt = doubt
    }

    private func isThere() {
        doubt?.cancel()
        doubt = nil
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
            isReady = true
            isThere()
            if let most = settings.last(where: { $0.parameter == .maxConcurrentStreams }) { mostStreams = most.value }
            changed()
        case .ping(_, ack: true): isThere()
        case .goAway(let last, _, _):
            isToldToGo = true
            // NIO ends these streams behind this frame, as if they had been canceled.
            for (stream, _) in streams.values where stream.streamID.map({ $0 > last }) ?? true {
                stream.declareUnprocessed()
            }
            retire()
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        lastRead = .now()
        context.fireChannelReadComplete()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard isReady, error is any NIOHTTP2Error else { return context.close(promise: nil) }
        // It may concern one stream alone, which NIO does not say: then the server still answers, and those under way go on.
        retire()
        ask()
    }

    func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    private func ended() {
        context = nil
        multiplexer = nil
        isThere()
        let opening = opening
        self.opening = [:]
        guard isReady else {
            for receiver in opening.values { receiver.notConnected(HTTPClientConnection.Closed()) }
            guard !isRetired else { return }
            isRetired = true
            return pool.cameToNothing(self, madeAt: madeAt)
        }
        retire()
        // Their requests have not begun: another connection takes them.
        for receiver in opening.values { pool.lease(for: receiver) }
    }
}

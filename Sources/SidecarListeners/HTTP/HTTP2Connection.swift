internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2

/// A client's HTTP/2 connection (RFC 9113). Each stream is served like a connection with one request. Confined to the
/// coordinator's event loop.
final class HTTP2Connection: ChannelDuplexHandler, TimedConnection, HTTPListenerConnection {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private static let settings: HTTP2Settings = [
        HTTP2Setting(parameter: .maxConcurrentStreams, value: 256),
        HTTP2Setting(parameter: .maxHeaderListSize, value: HTTPListenerContext.limits.maxHeaderListSize),
    ]

    /// The charge for a stream's end: its channel closes after the slice, at this cost.
    private static let costOfEnd = TimeAmount.microseconds(20)
    /// The idle timeout of a connection in a reserve slot. It leaves time to refuse the requests that arrived together
    /// with the first one.
    private static let reserveIdleTimeout = TimeAmount.milliseconds(100)

    let listener: HTTPListenerContext
    let slotKind: HTTPListenerContext.SlotKind
    /// The slices that all streams share.
    let slices: ConnectionSlices
    let firstRequestDeadline: NIODeadline
    private let failureDetector = HTTP2FailureDetector()
    var context: ChannelHandlerContext?
    var timer: LazyTimer?
    private var streams: [ObjectIdentifier: HTTPConnection] = [:]
    private var lastStreamID = HTTP2StreamID.rootStream
    /// Whether the connection serves no new streams.
    private var isShuttingDown = false
    /// Whether the client has left, but requests that it sent still wait for a slice.
    private var closesAfterSlices = false
    /// The caller of the last accepted request whose route needs a key; `nil` if there was none.
    private var lastCaller: AccessControl.Caller?

    private init(
        listener: HTTPListenerContext, slotKind: HTTPListenerContext.SlotKind, slices: ConnectionSlices,
        firstRequestDeadline: NIODeadline
    ) {
        self.listener = listener
        self.slotKind = slotKind
        self.slices = slices
        self.firstRequestDeadline = firstRequestDeadline
    }

    /// Installs the HTTP/2 handlers and this one in a connection's pipeline.
    static func installOnConnection(
        _ channel: any Channel, listener: HTTPListenerContext, slotKind: HTTPListenerContext.SlotKind, slices: ConnectionSlices,
        firstRequestDeadline: NIODeadline
    ) throws -> HTTP2Connection {
        let connection = HTTP2Connection(
            listener: listener, slotKind: slotKind, slices: slices, firstRequestDeadline: firstRequestDeadline)
        let boundSelf = NIOLoopBound(connection, eventLoop: channel.eventLoop)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers(UnreadResponseGate(unreadTimeout: listener.idleTimeout), SliceGate(slices, .http2))
        // Only the async configuration accepts a delegate for written frames. Its sequence of streams is unused.
        _ = try pipeline.configureAsyncHTTP2Pipeline(
            mode: .server, streamDelegate: nil, frameDelegate: connection.failureDetector,
            configuration: .init(
                connection: HTTPProtocol.connection(settings),
                stream: HTTPProtocol.streams(maximumResets: HTTP2Peer.maximumResets))
        ) { stream in
            stream.eventLoop.makeCompletedFuture { try boundSelf.value.serve(stream) }
        }
        try pipeline.addHandler(connection)
        return connection
    }

    // MARK: Streams

    /// Serves a stream that the client has opened.
    private func serve(_ channel: any Channel) throws {
        if let id = try channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) {
            lastStreamID = max(lastStreamID, id)
        }
        let slotKind = slotKind == .reserved ? .reserved : listener.streamBegins()
        let stream = HTTPConnection(
            listener: listener, slotKind: slotKind, slices: slices, parent: self,
            firstRequestDeadline: listener.now + listener.firstRequestTimeout(at: slotKind))
        try channel.pipeline.syncOperations.addHandlers(
            HTTP2EndOfStream(), HTTP2RequestHost(), HTTP2FramePayloadToHTTP1ServerCodec(), stream)
        streams[ObjectIdentifier(stream)] = stream
        timer?.clear()
    }

    /// Removes a stream. After the last one, the connection closes if it is shutting down, and otherwise waits for its
    /// idle timeout.
    func streamEnded(_ stream: HTTPConnection) {
        guard streams.removeValue(forKey: ObjectIdentifier(stream)) != nil else { return }
        slices.charge(Self.costOfEnd)
        if slotKind == .ordinary { listener.streamEnded() }
        guard streams.isEmpty else { return }
        if isShuttingDown { return closeAfterFlush() }
        timer?.set(listener.now + (slotKind == .reserved ? Self.reserveIdleTimeout : listener.idleTimeout))
    }

    /// Records that a request on a stream was accepted.
    func clientAdmitted(_ caller: AccessControl.Caller?) {
        if let caller { lastCaller = caller }
        listener.clientAdmitted(self, caller)
    }

    func closeIfKeyRevoked(_ isRemoved: (AccessControl.Caller) -> Bool) {
        for stream in Array(streams.values) { stream.closeIfKeyRevoked(isRemoved) }
        if let lastCaller, isRemoved(lastCaller) { shutDown() }
    }

    func shutDown() {
        isShuttingDown = true
        if streams.isEmpty { return closeAfterFlush() }
        if let context { HTTP2Peer.sendGoAway(on: context, last: lastStreamID) }
    }

    private func closeAfterFlush() {
        isShuttingDown = true
        timer?.set(listener.now + listener.idleTimeout)
        if let context { HTTP2Peer.closeAfterFlush(context, last: lastStreamID) }
    }

    private func close() { context?.close(promise: nil) }

    /// Closes the connection of a client that has left. Requests that wait for a slice are executed first.
    private func closeAfterSlices() {
        closesAfterSlices = streams.values.contains { $0.isSliceAwaited }
        if !closesAfterSlices { close() }
    }

    /// Handles the end of a slice for which a stream waited.
    func sliceUsed() { if closesAfterSlices { closeAfterSlices() } }

    // MARK: Channel

    func connectionEnded() { listener.connectionClosed(self) }

    func deadlineReached() { if isShuttingDown { close() } else { shutDown() } }

    /// Ignores the connection's own frames, which the protocol handler has processed.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { return closeAfterSlices() }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if PeerLiveness.indicatesUnreachablePeer(error) { for stream in streams.values { stream.markUnreachable() } }
        if failureDetector.isConnectionEnded(by: error) { closeAfterSlices() }
    }
}

/// Marks the last frame with content as the end of its stream, if that frame is not written yet, instead of sending an
/// empty frame. If a response has its gRPC status in the head and no body, gRPC clients reject it if another frame
/// follows (gRPC over HTTP2, "Trailers-Only").
final class HTTP2EndOfStream: ChannelOutboundHandler {
    typealias OutboundIn = HTTP2Frame.FramePayload
    typealias OutboundOut = HTTP2Frame.FramePayload

    /// The event that resets the stream, because the response is complete and the rest of the request is not wanted.
    struct Unread {}

    /// The last frame, which is written when another frame or a flush follows.
    private var held: (payload: HTTP2Frame.FramePayload, promise: EventLoopPromise<Void>?)?

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let payload = unwrapOutboundIn(data)
        if case .data(let end) = payload, end.endStream, end.data.readableBytes == 0, let held,
            let lastPayload = Self.markedAsEnd(held.payload)
        {
            self.held = nil
            var combinedPromise = held.promise
            combinedPromise.setOrCascade(to: promise)
            return context.write(wrapOutboundOut(lastPayload), promise: combinedPromise)
        }
        release(context)
        held = (payload, promise)
    }

    func flush(context: ChannelHandlerContext) {
        release(context)
        context.flush()
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard event is Unread else { return context.triggerUserOutboundEvent(event, promise: promise) }
        release(context)
        context.writeAndFlush(wrapOutboundOut(.rstStream(.noError)), promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        held?.promise?.fail(ChannelError.ioOnClosedChannel)
        held = nil
    }

    private func release(_ context: ChannelHandlerContext) {
        guard let held else { return }
        self.held = nil
        context.write(wrapOutboundOut(held.payload), promise: held.promise)
    }

    /// Returns the payload, marked as the end of its stream; `nil` if another frame must end the stream.
    private static func markedAsEnd(_ payload: HTTP2Frame.FramePayload) -> HTTP2Frame.FramePayload? {
        switch payload {
        case .headers(var headers):
            headers.endStream = true
            return .headers(headers)
        case .data(var data):
            data.endStream = true
            return .data(data)
        default: return nil
        }
    }
}

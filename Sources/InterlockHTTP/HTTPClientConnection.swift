package import NIOCore
package import NIOHTTP1

/// Takes what comes of one request that was sent to a server. Everything is called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// The request may be sent.
    func connected(_ connection: HTTPClientConnection)
    /// No connection could be had; nothing was sent.
    func notConnected(_ error: any Error)
    /// The answer begins.
    func received(_ head: HTTPResponseHead)
    func received(_ part: ByteBuffer)
    /// The answer is whole. The connection is no longer this request's.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// The connection has ended before the answer was whole.
    func failed(_ error: any Error)
    /// All that has arrived so far was handed over.
    func receivedAllThereIs()
    /// The connection takes more of the request, or no more for now.
    func writabilityChanged(_ isWritable: Bool)
}

/// A connection to a server that carries one request after another. Confined to its event loop.
package final class HTTPClientConnection: ChannelDuplexHandler {
    package typealias InboundIn = HTTPClientResponsePart
    package typealias OutboundIn = HTTPClientRequestPart
    package typealias OutboundOut = HTTPClientRequestPart

    /// The server closed before its answer was whole, or before one began.
    package struct Closed: Error {}

    /// Fields as they are taken: servers send larger ones than clients do.
    private static let limits: NIOHTTPDecoderLimitConfiguration = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 64 * 1024
        limits.maxHeaderListSize = 256 * 1024
        return limits
    }()

    /// Kept until the connection has ended.
    private var pool: HTTPConnectionPool?
    private var context: ChannelHandlerContext?
    private var receiver: (any HTTPClientReceiver)?
    /// It carries a request, or what came behind its answer is not known yet.
    private var isTaken = false
    private var isRequestSent = true
    private var isAnswerWhole = true
    private var mayBeUsedAgain = true
    private var isReadHeld = false
    private var isReadAsked = false
    /// What went wrong before the connection was closed.
    private var error: (any Error)?
    /// Since when nobody has used it.
    var idleSince = NIODeadline.uptimeNanoseconds(0)

    init(pool: HTTPConnectionPool) {
        self.pool = pool
    }

    /// What stands between the bytes and their meaning.
    static func handlers(pool: HTTPConnectionPool, of channel: any Channel) throws -> HTTPClientConnection {
        let connection = HTTPClientConnection(pool: pool)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(HTTPRequestEncoder())
        try pipeline.addHandler(
            ByteToMessageHandler(
                HTTPResponseDecoder(
                    leftOverBytesStrategy: .dropBytes, informationalResponseStrategy: .drop, limitConfiguration: limits)))
        try pipeline.addHandler(connection)
        return connection
    }

    // MARK: Whose request it carries

    func begin(for receiver: any HTTPClientReceiver) {
        self.receiver = receiver
        isTaken = true
        isRequestSent = false
        isAnswerWhole = false
        receiver.connected(self)
    }

    var isOpen: Bool { pool != nil && context?.channel.isActive ?? false }

    package func send(_ head: HTTPRequestHead) {
        context?.write(wrapOutboundOut(.head(head)), promise: nil)
    }

    package func send(_ part: ByteBuffer) {
        context?.write(wrapOutboundOut(.body(.byteBuffer(part))), promise: noted())
    }

    /// Notes that the connection broke off: where a write is the first to meet that, nothing else tells it before the answer seems to end.
    private func noted() -> EventLoopPromise<Void>? {
        guard let written = context?.eventLoop.makePromise(of: Void.self) else { return nil }
        written.futureResult.assumeIsolated().whenFailure { [self] error in
            if error is IOError, self.error == nil { self.error = error }
        }
        return written
    }

    /// The request is whole.
    package func sendEnd(_ trailers: HTTPHeaders? = nil) {
        isRequestSent = true
        context?.writeAndFlush(wrapOutboundOut(.end(trailers)), promise: nil)
    }

    package func flush() { context?.flush() }

    package var isWritable: Bool { context?.channel.isWritable ?? false }

    /// Reads no more of the answer until `resumeReading`.
    package func holdReading() { isReadHeld = true }

    package func resumeReading() {
        isReadHeld = false
        guard isReadAsked else { return }
        isReadAsked = false
        context?.read()
    }

    /// Gives the request up: nothing of it is told any more, and the connection ends.
    package func abandon() {
        receiver = nil
        close()
    }

    func close() {
        leavePool()
        context?.close(promise: nil)
    }

    /// It takes no place there any more, however long its end takes.
    private func leavePool() {
        mayBeUsedAgain = false
        let pool = pool
        self.pool = nil
        pool?.closed(self)
    }

    /// The next request is sent only when nothing has come behind the answer: that would be taken for its own.
    private func endIfOver() {
        guard isTaken, isAnswerWhole else { return }
        isTaken = false
        guard mayBeUsedAgain, isOpen else { return close() }
        resumeReading()
        pool?.free(self)
    }

    // MARK: Channel

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) {
        ended()
        self.context = nil
    }

    package func read(context: ChannelHandlerContext) {
        if isReadHeld { isReadAsked = true } else { context.read() }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // An answer whose connection broke off is not whole, although the decoder ends it.
        guard error == nil else { return }
        // Nobody has asked for it.
        guard !isAnswerWhole else { return close() }
        switch unwrapInboundIn(data) {
        case .head(let head):
            if !head.isKeepAlive { mayBeUsedAgain = false }
            receiver?.received(head)
        case .body(let part):
            receiver?.received(part)
        case .end(let trailers):
            let receiver = receiver
            self.receiver = nil
            isAnswerWhole = true
            // What the server does not want to its end is not sent to its end.
            if !isRequestSent { mayBeUsedAgain = false }
            isRequestSent = true
            receiver?.receivedEnd(trailers)
        }
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        receiver?.receivedAllThereIs()
        endIfOver()
        context.fireChannelReadComplete()
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        receiver?.writabilityChanged(context.channel.isWritable)
        context.fireChannelWritabilityChanged()
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A server that ends TLS without a word after a whole answer does no harm.
        if self.error == nil { self.error = error }
        close()
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { return close() }
        context.fireUserInboundEventTriggered(event)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        ended()
        context.fireChannelInactive()
    }

    private func ended() {
        leavePool()
        let receiver = receiver
        self.receiver = nil
        receiver?.failed(error ?? Closed())
    }
}

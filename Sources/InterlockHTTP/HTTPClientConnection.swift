package import NIOCore
package import NIOHTTP1
internal import NIOHPACK
internal import NIOHTTP2
internal import NIOSSL

/// Takes what comes of one request that was sent to a server. Everything is called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// The request may be sent.
    func connected(_ connection: HTTPClientConnection)
    /// No connection could be had; nothing was sent.
    func notConnected(_ error: any Error)
    /// An informational answer, behind which the answer, or another one of these, still comes.
    func receivedInformational(_ head: HTTPResponseHead)
    /// The answer begins.
    func received(_ head: HTTPResponseHead)
    func received(_ part: ByteBuffer)
    /// The answer is whole. The connection is no longer this request's.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// The connection ended before the answer was complete; the error may be an `HTTPClientConnection.Interruption`.
    func failed(_ error: any Error)
    /// All that has arrived so far was handed over.
    func receivedAllThereIs()
    /// The connection takes more of the request, or no more for now.
    func writabilityChanged(_ isWritable: Bool)
    /// The server speaks another protocol from now on, as it was asked to; the connection waits for `handOver` or `abandon`.
    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

extension HTTPClientReceiver {
    package func receivedInformational(_ head: HTTPResponseHead) {}

    package func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        connection.close()
    }
}

/// Where a connection comes back to, and what is told of its end. Confined to the connection's event loop.
package protocol HTTPClientConnectionHome: AnyObject {
    /// It has carried its request, and may carry another.
    func free(_ connection: HTTPClientConnection)
    /// It carries no request any more.
    func closed(_ connection: HTTPClientConnection)
}

/// What carries one request after another to a server, a connection; or one alone, a stream of an HTTP/2 connection. Confined to its
/// event loop.
package final class HTTPClientConnection: ChannelDuplexHandler, RemovableChannelHandler {
    package typealias InboundIn = HTTPClientResponsePart
    package typealias OutboundIn = HTTPClientRequestPart
    package typealias OutboundOut = HTTPClientRequestPart

    /// The server closed before its answer was whole, or before one began.
    package struct Closed: Error {}

    /// The end of a request before any byte of an answer, if more is known about it.
    package struct Interruption: Error {
        package enum Kind: Sendable {
            /// The server has not acted on the request: it was not sent whole, or the server says so (RFC 9113,
            /// sections 6.8 and 8.7).
            case unprocessed
            /// The connection had carried an earlier request, and has probably ended because nobody used it (RFC 9112,
            /// section 9.3.1).
            case stale
        }

        package let kind: Kind
        package let cause: any Error
    }

    /// The server's answer is not one of HTTP.
    package struct Malformed: Error {
        /// For people.
        package let reason: String
    }

    /// Fields as they are taken: servers send larger ones than clients do.
    static let limits: NIOHTTPDecoderLimitConfiguration = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 64 * 1024
        limits.maxHeaderListSize = 256 * 1024
        return limits
    }()

    /// Kept until the connection has ended.
    private var home: (any HTTPClientConnectionHome)?
    private let isStream: Bool
    private var context: ChannelHandlerContext?
    private var receiver: (any HTTPClientReceiver)?
    /// It carries a request, or what came behind its answer is not known yet.
    fileprivate private(set) var isTaken = false
    /// Whether a flush is in progress: an answer read within it is the last, because NIO drains the socket after a failed write.
    private var isFlushing = false
    private var isRequestSent = true
    private(set) var isAnswerWhole = true
    /// The answer that changes the protocol, until its end.
    private var change: HTTPResponseHead?
    /// Holds back what comes behind such an answer.
    private var gate: ProtocolChangeGate?
    private var mayBeUsedAgain = true
    private var isReadHeld = false
    private var isReadAsked = false
    private let largeReads: LargeReads?
    fileprivate let fields: FieldBytes
    /// The last read of this answer was large.
    private var readsMuch = false
    private var awaitsReadTurn = false
    private var hasReadTurn = false
    /// What went wrong before the connection was closed.
    private var error: (any Error)?
    /// Of the bytes that came last, and of the body's part in them.
    private var read = ReadEnd()
    private var partEnd: UInt?
    /// The deadline at which the connection closes if it stays unused.
    var unusedUntil = NIODeadline.uptimeNanoseconds(0)
    /// How long the server keeps the connection unused, if it has said so.
    private(set) var keepAlive: TimeAmount?
    /// After this it carries no further request.
    var retiresAt = NIODeadline.distantFuture
    /// Whether the connection, or a stream's connection, has carried an earlier request.
    var isReused = false
    /// The time in which a request and the end of its connection may cross each other on their way.
    private static let longestCrossing = TimeAmount.seconds(1)
    /// The server has said that it has not acted, and will not act, on the request.
    var isDeclaredUnprocessed = false
    private var headSentAt: NIODeadline?
    /// Something has come since the request began. Of a stream: its answer's head.
    private var hasHeard = false
    private var hasReceivedHead = false

    private init(home: any HTTPClientConnectionHome, isStream: Bool, largeReads: LargeReads? = nil) {
        self.home = home
        self.isStream = isStream
        self.largeReads = largeReads
        fields = FieldBytes(isHTTP2: isStream)
    }

    /// Puts between a connection's bytes and their meaning what stands there.
    package static func onConnection(
        _ channel: any Channel, home: any HTTPClientConnectionHome, largeReads: LargeReads? = nil
    ) throws -> HTTPClientConnection {
        let connection = HTTPClientConnection(home: home, isStream: false, largeReads: largeReads)
        let pipeline = channel.pipeline.syncOperations
        let decoder = HTTPResponseDecoder(
            leftOverBytesStrategy: .forwardBytes, informationalResponseStrategy: .forward, limitConfiguration: limits)
        try pipeline.addHandlers(
            ClientBytes(of: connection), ClientRequestEncoder(), ByteToMessageHandler(decoder), connection)
        return connection
    }

    /// The same for one stream of an HTTP/2 connection.
    static func onStream(
        _ channel: any Channel, home: any HTTPClientConnectionHome, isTLS: Bool
    ) throws -> HTTPClientConnection {
        let connection = HTTPClientConnection(home: home, isStream: true)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers(
            StatusCheck(), HTTP2FramePayloadToHTTP1ClientCodec(httpProtocol: isTLS ? .https : .http), connection)
        return connection
    }

    // MARK: Whose request it carries

    package func begin(for receiver: any HTTPClientReceiver) {
        self.receiver = receiver
        isTaken = true
        isRequestSent = false
        isAnswerWhole = false
        headSentAt = nil
        hasHeard = false
        hasReceivedHead = false
        receiver.connected(self)
    }

    var isOpen: Bool { home != nil && context?.channel.isActive ?? false }

    package func send(_ head: HTTPRequestHead) {
        if !isStream, head.headers.contains(name: "Upgrade") { addGate() }
        guard let context else { return }
        guard isStream else { return context.write(wrapOutboundOut(.head(head)), promise: nil) }
        // A stream's head may wait until the server takes more streams.
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolated().whenSuccess { [self] in headSentAt = .now() }
        var head = head
        head.headers = OpaqueText.readable(head.headers)
        context.write(wrapOutboundOut(.head(head)), promise: sent)
    }

    private func addGate() {
        let gate = ProtocolChangeGate()
        // Without it nothing changes.
        guard let pipeline = context?.pipeline.syncOperations, let decoder = try? decoder(in: pipeline),
            (try? pipeline.addHandler(gate, position: .before(decoder.handler))) != nil
        else { return }
        mayBeUsedAgain = false
        self.gate = gate
    }

    private func decoder(in pipeline: ChannelPipeline.SynchronousOperations) throws -> ChannelHandlerContext {
        try pipeline.context(handlerType: ByteToMessageHandler<HTTPResponseDecoder>.self)
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
        context?.write(wrapOutboundOut(.end(isStream ? trailers.map(OpaqueText.readable) : trailers)), promise: nil)
        flush()
    }

    package func flush() {
        isFlushing = true
        context?.flush()
        isFlushing = false
        // If the flush fails, the receiver has already been notified.
        if !isStream, headSentAt == nil { headSentAt = .now() }
    }

    package var isWritable: Bool { context?.channel.isWritable ?? false }

    /// Reads no more of the answer until `resumeReading`.
    package func holdReading() { isReadHeld = true }

    package func resumeReading() {
        isReadHeld = false
        guard isReadAsked else { return }
        isReadAsked = false
        readOn()
    }

    /// Now, or when it is this connection's turn.
    private func readOn() {
        guard readsMuch, let largeReads else { return context?.read() ?? () }
        guard !awaitsReadTurn else { return }
        awaitsReadTurn = true
        // Over TLS a read may come to nothing that is told here.
        endReadTurn()
        largeReads.ask(self)
    }

    private func endReadTurn() {
        guard hasReadTurn else { return }
        hasReadTurn = false
        largeReads?.ended()
    }

    /// Gives the request up: nothing of it is told any more, and the connection ends.
    package func abandon() {
        receiver = nil
        close()
    }

    func close() {
        leaveHome()
        context?.close(promise: nil)
    }

    /// It takes no place there any more, however long its end takes.
    private func leaveHome() {
        mayBeUsedAgain = false
        let home = home
        self.home = nil
        home?.closed(self)
    }

    fileprivate func noteRead(_ bytes: ByteBuffer) {
        hasHeard = true
        read = bytes.readEnd
        partEnd = nil
        readsMuch = bytes.readableBytes >= LargeReads.size
    }

    /// The next request is sent only when nothing has come behind the answer: that would be taken for its own.
    private func endIfOver() {
        guard isTaken, isAnswerWhole else { return }
        isTaken = false
        if isStream {
            leaveHome()
            // With both sides at their end it has closed by itself then.
            context?.eventLoop.assumeIsolated().execute { [self] in context?.close(promise: nil) }
            return
        }
        guard mayBeUsedAgain, isOpen, !isFlushing else { return close() }
        isReused = true
        resumeReading()
        home?.free(self)
    }

    /// Leaves the connection to `handler`, whose reads and writes are its bytes as they are: after `switchedProtocols`. When this tick is
    /// over it may write, and has been given what came in it after this.
    /// - Returns: what has come already.
    package func handOver(to handler: any ChannelHandler) throws -> ByteBuffer {
        guard let context, let gate else { throw Closed() }
        receiver = nil
        leaveHome()
        let pipeline = context.pipeline.syncOperations
        let encoder = try pipeline.context(handlerType: ClientRequestEncoder.self)
        let decoder = try decoder(in: pipeline)
        let bytes = try pipeline.context(handlerType: ClientBytes.self)
        fields.end()
        try pipeline.addHandler(handler)
        pipeline.removeHandler(context: encoder, promise: nil)
        pipeline.removeHandler(context: bytes, promise: nil)
        pipeline.removeHandler(context: context, promise: nil)
        pipeline.removeHandler(context: decoder, promise: nil)
        return gate.open()
    }

    // MARK: Channel

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) {
        ended()
        self.context = nil
    }

    package func read(context: ChannelHandlerContext) {
        if isReadHeld { isReadAsked = true } else { readOn() }
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // An answer whose connection broke off is not whole, although the decoder ends it.
        guard error == nil else { return }
        // Nobody has asked for it.
        guard !isAnswerWhole else { return close() }
        switch unwrapInboundIn(data) {
        case .head(var head):
            let isInformational = 100..<200 ~= head.status.code && head.status != .switchingProtocols
            if let restored = fields.decodedHead(head.headers, isInformational: isInformational) { head.headers = restored }
            hasHeard = true
            if head.status == .switchingProtocols, !isStream { return change = head }
            if let reason = Self.flaw(of: head, isStream: isStream) {
                error = Malformed(reason: reason)
                return close()
            }
            // More of them may come, and then the answer.
            if head.status.code < 200 {
                receiver?.receivedInformational(head)
                return
            }
            hasReceivedHead = true
            if !isStream {
                if !head.isKeepAlive { mayBeUsedAgain = false }
                keepAlive = head.headers.keepAlive
            }
            receiver?.received(head)
        case .body(let part):
            if !isStream { partEnd = part.endAddress }
            receiver?.received(part)
        case .end(var trailers):
            trailers = fields.decodedEnd(trailers) ?? trailers
            if let change {
                self.change = nil
                receiver?.switchedProtocols(change, self)
                return
            }
            guard hasReceivedHead else {
                error = Malformed(reason: "the answer ends before it begins")
                return close()
            }
            let receiver = receiver
            self.receiver = nil
            isAnswerWhole = true
            readsMuch = false
            // The beginning of another answer may be in the decoder already, which would read the next one as its rest.
            if !isStream, !read.isEnd(ofPart: partEnd) { mayBeUsedAgain = false }
            // What the server does not want to its end is not sent to its end.
            if !isRequestSent { mayBeUsedAgain = false }
            isRequestSent = true
            receiver?.receivedEnd(trailers)
        }
    }

    /// Why the head cannot be an answer's, or its end cannot be known: the decoders let it pass.
    private static func flaw(of head: HTTPResponseHead, isStream: Bool) -> String? {
        let status = head.status.code
        if status < 100 || isStream && head.status == .switchingProtocols { return "the answer's status is \(status)" }
        if isStream { return head.headers.hasClearLength ? nil : "the answer's Content-Length is not one number of digits" }
        return head.headers.unknownTransferCoding.map { "the answer's transfer coding is \"\($0)\"" }
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        endReadTurn()
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
        leaveHome()
        endReadTurn()
        let receiver = receiver
        self.receiver = nil
        receiver?.failed(failure)
    }

    private var failure: any Error {
        let cause = error ?? Closed()
        guard !hasHeard else { return cause }
        let refusal = (cause as? NIOHTTP2Errors.StreamClosed)?.errorCode
        guard let headSentAt, !isDeclaredUnprocessed, refusal != .refusedStream else {
            return Interruption(kind: .unprocessed, cause: cause)
        }
        // A server that closes an unused connection does not know of the request; one that worked on it for longer has failed.
        guard isReused, Self.isEnd(cause), .now() - headSentAt <= Self.longestCrossing else { return cause }
        return Interruption(kind: .stale, cause: cause)
    }

    /// Whether the connection itself has ended, and not one stream of it or what was said on it.
    private static func isEnd(_ error: any Error) -> Bool {
        switch error {
        case is Closed, is IOError, is ChannelError, NIOSSLError.uncleanShutdown: true
        default: false
        }
    }

    /// The number of a stream; `nil`: it has none yet.
    var streamID: HTTP2StreamID? { try? context?.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) }
}

extension HTTPClientConnection: LargeReader {
    func readInTurn() -> Bool {
        awaitsReadTurn = false
        // What it waited for may be over by now.
        guard let context, !isReadHeld else {
            isReadAsked = true
            return false
        }
        hasReadTurn = true
        context.read()
        return true
    }
}

extension HTTPHeaders {
    /// Whether the length of what follows is a number of digits alone, and said once: the decoder of HTTP/1.1 sees to that, that of
    /// HTTP/2 does not.
    package var hasClearLength: Bool {
        let lengths = self["Content-Length"]
        return lengths.count < 2
            && lengths.allSatisfy { !$0.isEmpty && $0.utf8.count <= 18 && $0.utf8.allSatisfy { 48...57 ~= $0 } }
    }
}

extension HTTPHeaders {
    /// A transfer coding besides `chunked`, of which the decoders would lose every trace (RFC 9112, section 6.1);
    /// `nil`: there is none. `identity`, which some servers still say, means none.
    package var unknownTransferCoding: String? {
        guard contains(name: "Transfer-Encoding") else { return nil }
        let codings = self[canonicalForm: "Transfer-Encoding"]
        var hasChunks = false
        for coding in codings.map({ $0.lowercased() }) where coding != "identity" && !coding.isEmpty {
            guard coding == "chunked", !hasChunks else { return coding }
            hasChunks = true
        }
        return nil
    }

    /// How long the server keeps an unused connection, from its `Keep-Alive`; `nil` if there is none.
    package var keepAlive: TimeAmount? {
        guard contains(name: "Keep-Alive") else { return nil }
        for parameter in self["Keep-Alive"].flatMap({ $0.split(separator: ",") }) {
            let words = parameter.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != " " && $0 != "\t" } }
            guard words.count == 2, words[0].lowercased() == "timeout", let seconds = Int64(words[1]), seconds >= 0 else {
                continue
            }
            return .seconds(Swift.min(seconds, 86_400))
        }
        return nil
    }
}

/// Ends a stream whose answer's status is no number of three digits, which NIO's codec makes another number of, or traps
/// on; or whose answer ends with an informational head, behind which the codec tells of no end.
private final class StatusCheck: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias InboundOut = HTTP2Frame.FramePayload

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .headers(let head) = unwrapInboundIn(data), let status = head.headers.first(name: ":status") else {
            return context.fireChannelRead(data)
        }
        if status.utf8.count != 3 || !status.utf8.allSatisfy({ 48...57 ~= $0 }) {
            fail(context, "the answer's status is no number of three digits")
        } else if head.endStream, status.utf8.first == UInt8(ascii: "1") {
            fail(context, "the answer ends before it begins")
        } else {
            context.fireChannelRead(data)
        }
    }

    private func fail(_ context: ChannelHandlerContext, _ reason: String) {
        context.fireErrorCaught(HTTPClientConnection.Malformed(reason: reason))
    }
}

/// How the bytes end that were read last.
private struct ReadEnd {
    var address: UInt = 0
    var endsWithEmptyLine = false

    /// Whether an answer that ended within these bytes ended with them: with its body's last part, or with the empty line behind a head
    /// or trailers. Behind an answer's beginning there is none.
    func isEnd(ofPart partEnd: UInt?) -> Bool { endsWithEmptyLine || partEnd == address }
}

extension ByteBuffer {
    fileprivate var endAddress: UInt {
        withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) + UInt($0.count) }
    }

    fileprivate var readEnd: ReadEnd {
        withUnsafeReadableBytes { bytes in
            ReadEnd(
                address: UInt(bitPattern: bytes.baseAddress) + UInt(bytes.count),
                endsWithEmptyLine: bytes.count >= 4
                    && bytes.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self) == Self.emptyLine)
        }
    }

    /// CR LF CR LF, as this machine reads four bytes.
    private static var emptyLine: UInt32 { UInt32(bigEndian: 0x0D0A_0D0A) }
}

/// Ends a connection on which something comes while it carries no request: to the decoder the beginning of an answer is none yet, and the
/// next answer would be read as its rest. Notes how each read ends, for what comes behind an answer in the same one. Keeps the bytes of
/// fields.
private final class ClientBytes: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private unowned let connection: HTTPClientConnection
    private let fields: FieldBytes

    init(of connection: HTTPClientConnection) {
        self.connection = connection
        fields = connection.fields
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard connection.isTaken else { return connection.close() }
        let bytes = unwrapInboundIn(data)
        connection.noteRead(bytes)
        fields.read(bytes) { context.fireChannelRead(data) }
    }
}

/// Keeps from the decoder what a server says behind the answer that changes the protocol: NIO's would lose it if the connection ended
/// right then.
private final class ProtocolChangeGate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private enum State {
        /// The answer's head is awaited.
        case closed
        /// It has come, and changes the protocol.
        case holding
        case open
    }

    private static let headEnd = Array("\r\n\r\n".utf8)
    private static let preliminary = [Array("HTTP/1.1 1".utf8), Array("HTTP/1.0 1".utf8)]
    private static let changes = [Array("HTTP/1.1 101".utf8), Array("HTTP/1.0 101".utf8)]
    private static let longestHead = 512 * 1024

    private var state = State.closed
    private var held = ByteBuffer()

    /// - Returns: what was held back.
    func open() -> ByteBuffer {
        state = .open
        let held = held
        self.held = ByteBuffer()
        return held
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard state != .open else { return context.fireChannelRead(data) }
        held.append(unread: unwrapInboundIn(data))
        while state == .closed, let end = held.readableBytesView.firstRange(of: Self.headEnd) {
            let view = held.readableBytesView
            // Others than that may come before it.
            guard Self.preliminary.contains(where: view.starts(with:)) else {
                return context.fireChannelRead(wrapInboundOut(open()))
            }
            if Self.changes.contains(where: view.starts(with:)) { state = .holding }
            guard let head = held.readSlice(length: view.distance(from: view.startIndex, to: end.upperBound)) else { return }
            context.fireChannelRead(wrapInboundOut(head))
        }
        if state == .closed, held.readableBytes > Self.longestHead { context.fireChannelRead(wrapInboundOut(open())) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if state == .closed, held.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(open())) }
        context.fireChannelInactive()
    }
}

package import NIOCore
internal import NIOHPACK
package import NIOHTTP1
internal import NIOHTTP2
internal import NIOSSL

/// A connection to a server that carries one request after another, or a stream of an HTTP/2 connection that carries
/// one. Executes the actions of `HTTPClientStateMachine`. Confined to its event loop.
package final class HTTPClientConnection: ChannelDuplexHandler, RemovableChannelHandler {
    package typealias InboundIn = HTTPClientResponsePart
    package typealias OutboundIn = HTTPClientRequestPart
    package typealias OutboundOut = HTTPClientRequestPart

    /// The error of a connection that ended before the response was complete.
    package struct Closed: Error {}

    /// The error of a connection that ended before the first byte of the response, with what is known about the
    /// request.
    package struct Interruption: Error {
        package enum Kind: Sendable {
            /// The server has not acted on the request: it was not sent completely, or the server reported this (RFC
            /// 9113, sections 6.8 and 8.7).
            case unprocessed
            /// The connection had carried an earlier request, and probably ended because it was unused (RFC 9112,
            /// section 9.3.1).
            case stale
        }

        package let kind: Kind
        package let cause: any Error
    }

    /// The error of a response that is not valid HTTP.
    package struct Malformed: Error {
        /// A human-readable reason.
        package let reason: String
    }

    /// The limits of a response's fields, which are higher than a request's: servers send larger fields than clients.
    static let limits: NIOHTTPDecoderLimitConfiguration = {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 64 * 1024
        limits.maxHeaderListSize = 256 * 1024
        return limits
    }()

    /// The recipient of the response to the request in flight.
    private enum Recipient {
        /// No request is in flight.
        case nobody
        case receiver(any HTTPClientReceiver)
        /// The response switches protocols, and its end has not arrived.
        case switching(any HTTPClientReceiver, HTTPResponseHead)
    }

    private let owner: any HTTPClientConnectionOwner
    private let largeReadLimiter: LargeReadLimiter?
    fileprivate let fields: FieldBytes
    private var machine: HTTPClientStateMachine
    private var recipient = Recipient.nobody
    private let eventLoop: any EventLoop
    private var context: ChannelHandlerContext?
    /// The error that fails the request when the channel ends.
    private var cause: any Error = Closed()
    /// The deadline at which the connection closes if it stays unused.
    var idleDeadline = NIODeadline.uptimeNanoseconds(0)
    /// The keep-alive timeout that the server announced, if any.
    private(set) var keepAliveTimeout: TimeAmount?
    /// The deadline after which the connection accepts no further request.
    var retiresAt = NIODeadline.distantFuture

    private init(
        owner: any HTTPClientConnectionOwner, carrier: HTTPClientStateMachine.Carrier, eventLoop: any EventLoop,
        largeReadLimiter: LargeReadLimiter? = nil
    ) {
        self.owner = owner
        self.eventLoop = eventLoop
        self.largeReadLimiter = largeReadLimiter
        machine = HTTPClientStateMachine(carrier)
        fields = FieldBytes(isHTTP2: carrier == .stream)
    }

    /// Installs the codec and this handler in a connection's pipeline.
    package static func installOnConnection(
        _ channel: any Channel, owner: any HTTPClientConnectionOwner, largeReadLimiter: LargeReadLimiter? = nil
    ) throws -> HTTPClientConnection {
        let connection = HTTPClientConnection(
            owner: owner, carrier: .connection, eventLoop: channel.eventLoop, largeReadLimiter: largeReadLimiter)
        let pipeline = channel.pipeline.syncOperations
        let decoder = HTTPResponseDecoder(
            leftOverBytesStrategy: .forwardBytes, informationalResponseStrategy: .forward, limitConfiguration: limits)
        try pipeline.addHandlers(
            RawReadObserver(of: connection), ClientRequestEncoder(), ByteToMessageHandler(decoder), connection)
        return connection
    }

    /// Installs the codec and this handler in the pipeline of a stream of an HTTP/2 connection.
    static func installOnStream(
        _ channel: any Channel, owner: any HTTPClientConnectionOwner, isTLS: Bool
    ) throws -> HTTPClientConnection {
        let connection = HTTPClientConnection(owner: owner, carrier: .stream, eventLoop: channel.eventLoop)
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers(
            StatusCheck(), HTTP2FramePayloadToHTTP1ClientCodec(httpProtocol: isTLS ? .https : .http), connection)
        return connection
    }

    private var isStream: Bool { machine.carrier == .stream }

    /// The receiver of the request in flight.
    private var receiver: (any HTTPClientReceiver)? {
        switch recipient {
        case .nobody: nil
        case .receiver(let receiver), .switching(let receiver, _): receiver
        }
    }

    /// Returns the receiver of the request in flight, and releases it: it gets no further events.
    private func releaseReceiver() -> (any HTTPClientReceiver)? {
        let receiver = receiver
        recipient = .nobody
        return receiver
    }

    // MARK: Requests

    /// Begins a request for `receiver`, and calls its `connectionEstablished`, or `requestFailed` if the connection
    /// cannot carry it.
    /// - Parameter isReused: whether a stream's connection has carried an earlier request.
    package func begin(for receiver: any HTTPClientReceiver, isReused: Bool = false) {
        switch machine.begin(isReused: isReused) {
        case .ignore: receiver.requestFailed(Interruption(kind: .unprocessed, cause: Closed()))
        case .proceed:
            recipient = .receiver(receiver)
            receiver.connectionEstablished(self)
        }
    }

    var isOpen: Bool { machine.isPooled && isActive }

    private var now: Duration { eventLoop.now.uptime }

    private var isActive: Bool { context?.channel.isActive ?? false }

    /// Whether the last response is complete, or there has been no request.
    var isResponseComplete: Bool { machine.isResponseComplete }

    package func send(_ head: HTTPRequestHead) {
        guard let context, machine.requestPart() == .proceed else { return }
        guard isStream else {
            if head.headers.contains(name: "Upgrade") { addGate(context.pipeline.syncOperations) }
            return context.write(wrapOutboundOut(.head(head)), promise: nil)
        }
        // A stream's head may wait until the server accepts more streams.
        let headWritten = context.eventLoop.makePromise(of: Void.self)
        headWritten.futureResult.assumeIsolated().whenSuccess { [self] in machine.headSent(at: now) }
        var head = head
        head.headers = OpaqueText.readable(head.headers)
        context.write(wrapOutboundOut(.head(head)), promise: headWritten)
    }

    private func addGate(_ pipeline: ChannelPipeline.SynchronousOperations) {
        // If the gate cannot be added, the connection cannot switch protocols.
        guard let decoder = try? decoder(in: pipeline),
            (try? pipeline.addHandler(ProtocolChangeGate(), position: .before(decoder.handler))) != nil
        else { return }
        machine.upgradeOffered()
    }

    private func decoder(in pipeline: ChannelPipeline.SynchronousOperations) throws -> ChannelHandlerContext {
        try pipeline.context(handlerType: ByteToMessageHandler<HTTPResponseDecoder>.self)
    }

    package func send(_ part: ByteBuffer) {
        guard let context, machine.requestPart() == .proceed else { return }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenFailure { [self] error in
            if error is IOError { perform(machine.writeFailed(.connectionEnd), error) }
        }
        context.write(wrapOutboundOut(.body(.byteBuffer(part))), promise: written)
    }

    /// Ends the request.
    package func sendEnd(_ trailers: HTTPHeaders? = nil) {
        guard machine.requestEnd() == .proceed else { return }
        context?.write(wrapOutboundOut(.end(isStream ? trailers.map(OpaqueText.readable) : trailers)), promise: nil)
        flush()
    }

    package func flush() {
        guard machine.flushBegins() == .proceed else { return }
        context?.flush()
        // If the flush fails, the receiver has already been notified.
        machine.flushEnds(at: now)
    }

    package var isWritable: Bool { context?.channel.isWritable ?? false }

    /// Stops reading the response until `resumeReading`.
    package func holdReading() { machine.reads.receiverHolds() }

    package func resumeReading() { perform(machine.reads.receiverResumes()) }

    /// Abandons the request, and closes the connection without notifying the receiver.
    package func abandon() {
        recipient = .nobody
        fields.end()
        perform(machine.abandon())
    }

    func close() { perform(machine.close()) }

    /// Records that the server reported the request as unprocessed.
    func declareUnprocessed() { machine.declaredUnprocessed() }

    /// Replaces the HTTP handlers with `handler`, which reads and writes plain bytes. The receiver calls this during or
    /// after `protocolSwitched`. `handler` may write from the end of this tick on; by then it has received the bytes
    /// that arrived after this call.
    /// - Returns: the bytes that arrived before the call.
    package func handOver(to handler: any ChannelHandler) throws -> ByteBuffer {
        guard let context else { throw Closed() }
        do {
            return try handOver(to: handler, in: context)
        } catch {
            // No other code closes a connection that has left the pool.
            context.close(promise: nil)
            throw error
        }
    }

    private func handOver(to handler: any ChannelHandler, in context: ChannelHandlerContext) throws -> ByteBuffer {
        let pipeline = context.pipeline.syncOperations
        guard let gate = try? pipeline.handler(type: ProtocolChangeGate.self), machine.handOver() == .proceed else {
            throw Closed()
        }
        recipient = .nobody
        owner.connectionRetired(self)
        let encoder = try pipeline.context(handlerType: ClientRequestEncoder.self)
        let decoder = try decoder(in: pipeline)
        let observer = try pipeline.context(handlerType: RawReadObserver.self)
        fields.end()
        try pipeline.addHandler(handler)
        pipeline.removeHandler(context: encoder, promise: nil)
        pipeline.removeHandler(context: observer, promise: nil)
        pipeline.removeHandler(context: context, promise: nil)
        pipeline.removeHandler(context: decoder, promise: nil)
        return gate.open()
    }

    // MARK: Channel

    package func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    package func handlerRemoved(context: ChannelHandlerContext) {
        connectionEnded()
        self.context = nil
    }

    package func read(context: ChannelHandlerContext) { perform(machine.reads.readRequested()) }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            let isInformational = 100..<200 ~= head.status.code && head.status != .switchingProtocols
            if let restored = fields.decodedHead(head.headers, isInformational: isInformational) { head.headers = restored }
            perform(machine.responseHead(kind(of: head)), head)
        case .body(let part):
            switch machine.responsePart(endingAt: part.endAddress) {
            case .ignore: break
            case .deliver: receiver?.partReceived(part)
            case .close: leaveAndClose()
            }
        case .end(let trailers):
            perform(machine.responseEnd(), fields.decodedEnd(trailers) ?? trailers)
        }
    }

    /// Classifies a head. The decoders also accept invalid heads, and heads that leave the end of the response unclear.
    private func kind(of head: HTTPResponseHead) -> HTTPClientStateMachine.ResponseHead {
        let status = head.status.code
        guard status >= 100 else { return .malformed(.status) }
        if status == HTTPResponseStatus.switchingProtocols.code { return isStream ? .malformed(.status) : .switching }
        if isStream {
            guard head.headers.hasValidContentLength else { return .malformed(.contentLength) }
        } else if head.headers.unsupportedTransferCoding != nil {
            return .malformed(.transferCoding)
        }
        return status < 200 ? .informational : .final(keepsAlive: isStream || head.isKeepAlive)
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        perform(machine.reads.readCompleted())
        perform(machine.allReceived())
        perform(machine.readCompleted(isActive: isActive))
        context.fireChannelReadComplete()
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        perform(machine.writabilityChanged(context.channel.isWritable))
        context.fireChannelWritabilityChanged()
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        perform(machine.errorCaught(.init(error)), error)
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { return close() }
        context.fireUserInboundEventTriggered(event)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        connectionEnded()
        context.fireChannelInactive()
    }

    private func connectionEnded() {
        let action = machine.channelEnded(at: now)
        perform(machine.reads.readCompleted())
        perform(action)
    }

    /// The ID of the stream; `nil` before it is assigned.
    var streamID: HTTP2StreamID? { try? context?.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID) }
}

// MARK: - Actions

extension HTTPClientConnection {
    private func perform(_ action: HTTPClientStateMachine.Action) {
        switch action {
        case .none: break
        case .reportWritability(let isWritable): receiver?.writabilityChanged(isWritable)
        case .reportAllReceived: receiver?.readCompleted()
        case .returnToPool:
            resumeReading()
            owner.takeBack(self)
        case .close: leaveAndClose()
        case .closeLater:
            owner.connectionRetired(self)
            context?.eventLoop.assumeIsolated().execute { [self] in context?.close(promise: nil) }
        case .leave: owner.connectionRetired(self)
        case .fail(let failureKind): fail(failureKind)
        case .leaveAndFail(let failureKind):
            owner.connectionRetired(self)
            fail(failureKind)
        }
    }

    private func perform(_ action: HTTPClientStateMachine.HeadAction, _ head: HTTPResponseHead) {
        switch action {
        case .ignore: break
        case .deliver:
            if !isStream { keepAliveTimeout = head.headers.keepAliveTimeout }
            receiver?.headReceived(head)
        case .deliverInformational: receiver?.informationalHeadReceived(head)
        case .keepForSwitch:
            if let receiver { recipient = .switching(receiver, head) }
        case .reject(let error): reject(Malformed(error, head))
        case .close: leaveAndClose()
        }
    }

    private func perform(_ action: HTTPClientStateMachine.EndAction, _ trailers: HTTPHeaders?) {
        switch action {
        case .ignore: break
        case .deliver: releaseReceiver()?.endReceived(trailers)
        case .switchProtocols:
            guard case .switching(let receiver, let head) = recipient else { return }
            recipient = .receiver(receiver)
            receiver.protocolSwitched(head, self)
        case .reject(let error): reject(Malformed(error))
        case .close: leaveAndClose()
        }
    }

    private func perform(_ action: HTTPClientStateMachine.ErrorAction, _ error: any Error) {
        switch action {
        case .ignore: break
        case .recordCause: cause = error
        case .recordCauseAndClose: reject(error)
        case .close: leaveAndClose()
        }
    }

    private func perform(_ action: ResponseReads.Action) {
        switch action {
        case .none: break
        case .read: context?.read()
        case .requestTurn: largeReadLimiter?.requestTurn(self)
        case .endTurn: largeReadLimiter?.endTurn()
        case .endTurnAndRequestAnother:
            largeReadLimiter?.endTurn()
            largeReadLimiter?.requestTurn(self)
        }
    }

    private func reject(_ error: any Error) {
        cause = error
        leaveAndClose()
    }

    /// Leaves the pool immediately, and starts to close the channel, which may take a while.
    private func leaveAndClose() {
        owner.connectionRetired(self)
        context?.close(promise: nil)
    }

    private func fail(_ failureKind: HTTPClientStateMachine.FailureKind) {
        let receiver = releaseReceiver()
        switch failureKind {
        case .failed: receiver?.requestFailed(cause)
        case .unprocessed: receiver?.requestFailed(Interruption(kind: .unprocessed, cause: cause))
        case .stale: receiver?.requestFailed(Interruption(kind: .stale, cause: cause))
        }
    }

    /// Returns whether `RawReadObserver` passes the bytes on to the decoder.
    fileprivate func accepts(_ bytes: ByteBuffer) -> Bool {
        let isLarge = largeReadLimiter != nil && bytes.readableBytes >= LargeReadLimiter.minimumSize
        switch machine.bytesReceived(bytes.readEnd, isLarge: isLarge) {
        case .deliver: return true
        case .ignore: return false
        case .close:
            leaveAndClose()
            return false
        }
    }
}

extension HTTPClientConnection: LargeReader {
    func readInTurn() -> Bool {
        // The read may no longer be needed.
        guard let context, machine.reads.turnStarted() == .read else { return false }
        context.read()
        return true
    }
}

extension HTTPClientConnection.Malformed {
    fileprivate init(_ error: HTTPClientStateMachine.ProtocolError, _ head: HTTPResponseHead? = nil) {
        switch error {
        case .status: reason = "the response's status is \(head?.status.code ?? 0)"
        case .contentLength: reason = "the response's Content-Length is not a single number"
        case .transferCoding: reason = "the response's transfer coding is \"\(head?.headers.unsupportedTransferCoding ?? "")\""
        case .missingHead: reason = "the response ended before its headers"
        }
    }
}

extension HTTPClientStateMachine.Cause {
    fileprivate init(_ error: any Error) {
        switch error {
        case is HTTPClientConnection.Closed, is IOError, is ChannelError, NIOSSLError.uncleanShutdown: self = .connectionEnd
        case let error as NIOHTTP2Errors.StreamClosed where error.errorCode == .refusedStream: self = .refusedStream
        default: self = .other
        }
    }
}

extension NIODeadline {
    /// The time since the start of the clock.
    fileprivate var uptime: Duration { .nanoseconds(Int64(clamping: uptimeNanoseconds)) }
}

/// Fails a stream that NIO's codec cannot handle. The codec misreads or traps on a status that is not three digits, and
/// it reports no end for a stream that ends with an informational head.
private final class StatusCheck: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias InboundOut = HTTP2Frame.FramePayload

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .headers(let head) = unwrapInboundIn(data), let status = head.headers.first(name: ":status") else {
            return context.fireChannelRead(data)
        }
        if status.utf8.count != 3 || !status.utf8.allSatisfy({ 48...57 ~= $0 }) {
            fail(context, "the response's status is not a three-digit number")
        } else if head.endStream, status.utf8.first == UInt8(ascii: "1") {
            fail(context, "the response ended before its headers")
        } else {
            context.fireChannelRead(data)
        }
    }

    private func fail(_ context: ChannelHandlerContext, _ reason: String) {
        context.fireErrorCaught(HTTPClientConnection.Malformed(reason: reason))
    }
}

extension ByteBuffer {
    /// The address after the last readable byte.
    fileprivate var endAddress: UInt {
        withUnsafeReadableBytes { UInt(bitPattern: $0.baseAddress) + UInt($0.count) }
    }

    fileprivate var readEnd: HTTPClientStateMachine.ReadEnd {
        withUnsafeReadableBytes { bytes in
            let endsWithEmptyLine =
                bytes.count >= 4 && bytes.loadUnaligned(fromByteOffset: bytes.count - 4, as: UInt32.self) == Self.emptyLine
            return endsWithEmptyLine ? .emptyLine : .address(UInt(bitPattern: bytes.baseAddress) + UInt(bytes.count))
        }
    }

    /// CR LF CR LF in this machine's byte order.
    private static var emptyLine: UInt32 { UInt32(bigEndian: 0x0D0A_0D0A) }
}

/// Reports each read before it is decoded, and records the raw bytes of fields. The decoder silently buffers the
/// beginning of an unrequested response, and would read the next response as its continuation.
private final class RawReadObserver: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private unowned let connection: HTTPClientConnection
    private let fields: FieldBytes

    init(of connection: HTTPClientConnection) {
        self.connection = connection
        fields = connection.fields
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        guard connection.accepts(bytes) else { return }
        fields.read(bytes) { context.fireChannelRead(data) }
    }
}

internal import InterlockHTTP
internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP1
internal import NIOHTTP2

/// One client of the gRPC API (gRPC over HTTP/2). Handles the frames of all its streams itself, because a channel per
/// stream would cost as much as the decision that a call asks for. Confined to the coordinator's event loop.
final class GRPCConnection: ChannelDuplexHandler, TimedConnection, FlushedConnection {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// The bytes of one read: fifty of the smallest frames, or about seven calls. With twice as many, a client waited
    /// nearly twice as long next to two clients that cancel their calls after a millisecond, and those two got a third
    /// fewer responses.
    static let readLength = 512
    /// The maximum length of a message, in bytes.
    static let maximumMessageLength = 1 << 20
    /// The maximum total length of all incomplete messages, in bytes.
    static let maximumReceived = 4 << 20
    /// The maximum length of a message, in bytes, after which a call reuses its buffer.
    private static let maximumReusedLength = 4096
    private static let maximumStreams = 256
    /// The maximum number of consecutive empty messages of one call once the client's frame budget is spent.
    private static let maximumEmptyMessages = 100
    /// The maximum number of unsent messages of a streaming response.
    private static let maximumUnsent = 64
    /// The bytes before each message: a compression flag and four bytes of length.
    private static let prefixLength = 5
    /// The time within which a call's message must arrive, and the interval of the check.
    private static let messageTimeout = TimeAmount.seconds(10)
    /// The maximum number of body bytes that are read before a call is accepted.
    private static let maximumUnauthenticatedBytes = 64 << 10

    private let listener: GRPCListenerContext
    private let slices: ConnectionSlices
    private let failureDetector = HTTP2FailureDetector()
    var context: ChannelHandlerContext?
    /// The calls in flight, by stream.
    private var calls: [HTTP2StreamID: GRPCCall] = [:]
    private let gate: UnreadResponseGate
    private var budget: FrameBudget
    private var lastStream = HTTP2StreamID.rootStream
    /// The buffered bytes of all streams.
    private var received = 0
    var timer: LazyTimer?
    private var isFlushScheduled = false
    /// Whether new calls are refused.
    private(set) var isShuttingDown = false
    /// Whether the connection closes once everything is written.
    private var isEnding = false
    /// The end of the last call; `nil` if a call is in progress, or before the first.
    private var idleSince: NIODeadline?
    let firstRequestDeadline: NIODeadline
    /// The caller of the last accepted call; `nil` before the first.
    private var lastCaller: AccessControl.Caller?
    /// Whether frames have arrived. Then the handshake is complete, and a GOAWAY can be sent.
    private var hasReceivedFrames = false
    /// The bytes of bodies that arrived before a call was accepted.
    private var unauthenticatedBytes = 0

    private init(listener: GRPCListenerContext, slices: ConnectionSlices) {
        self.listener = listener
        self.slices = slices
        gate = UnreadResponseGate(unreadTimeout: listener.unreadTimeout)
        budget = FrameBudget(now: Int64(clamping: listener.now.uptimeNanoseconds))
        firstRequestDeadline = listener.now + listener.firstRequestTimeout
    }

    /// The event loop's time, in nanoseconds.
    private var clock: Int64 { Int64(clamping: listener.now.uptimeNanoseconds) }

    private static let settings: HTTP2Settings = [
        HTTP2Setting(parameter: .maxConcurrentStreams, value: maximumStreams),
        HTTP2Setting(parameter: .maxHeaderListSize, value: HTTPListenerContext.limits.maxHeaderListSize),
        HTTP2Setting(parameter: .initialWindowSize, value: maximumMessageLength + prefixLength),
    ]

    /// Installs the codec and this handler in the pipeline.
    static func begin(on channel: any Channel, listener: GRPCListenerContext, slices: ConnectionSlices) throws -> GRPCConnection {
        let connection = GRPCConnection(listener: listener, slices: slices)
        var configuration = HTTPProtocol.connection(settings)
        // Invalid fields are detected where they are read; none are forwarded.
        configuration.headerBlockValidation = .disabled
        configuration.contentLengthValidation = .disabled
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers(connection.gate, SliceGate(slices, .grpc))
        try pipeline.addHandler(
            NIOHTTP2Handler(
                mode: .server, frameDelegate: connection.failureDetector, connectionConfiguration: configuration,
                streamConfiguration: HTTPProtocol.streams(maximumResets: HTTP2Peer.maximumResets)))
        try pipeline.addHandler(connection)
        return connection
    }

    var now: NIODeadline { listener.now }

    /// The calls in flight, oldest first.
    private var callsInOrder: [GRPCCall] { calls.values.sorted { $0.stream < $1.stream } }

    /// The host of the client.
    var address: String { context?.remoteAddress?.ipAddress ?? "" }

    // MARK: Frames

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        hasReceivedFrames = true
        if case .data(let data) = frame.payload {
            guard case .byteBuffer(let bytes) = data.data else { return }
            if lastCaller == nil {
                unauthenticatedBytes += bytes.readableBytes
                guard unauthenticatedBytes <= Self.maximumUnauthenticatedBytes else { return evict() }
            }
            // Parts of a long message cost nothing here: other clients are served between them.
            if bytes.readableBytes < Self.readLength / 2 { budget.spend() }
            return message(bytes, frame.streamID, isLast: data.endStream)
        }
        budget.spend()
        switch frame.payload {
        case .headers(let headers): head(headers, frame.streamID)
        case .rstStream: calls[frame.streamID].map(cancel)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard budget.isSpent else { return }
        let pause = budget.pause(now: clock)
        if pause > 0 { gate.pause(.nanoseconds(pause)) }
    }

    private func head(_ head: HTTP2Frame.FramePayload.Headers, _ id: HTTP2StreamID) {
        guard id > lastStream else {
            // Trailers carry no information. The call may be over before its stream is reset.
            if head.endStream { message(ByteBuffer(), id, isLast: true) }
            return
        }
        lastStream = id
        idleSince = nil
        let path = head.headers.first(name: ":path") ?? ""
        let method = listener.methods[path] ?? listener.unknownMethod
        let call = GRPCCall(connection: self, stream: id, method: method, began: listener.now)
        call.isRequestComplete = head.endStream
        calls[id] = call
        guard GRPCStatus.isUsed(in: head.headers.first(name: "content-type")) else { return refuse(call, httpStatus: "415") }
        guard method !== listener.unknownMethod else { return call.fail(.unimplemented, "unknown method \(path)") }
        guard let caller = listener.caller(head.headers, from: context?.remoteAddress) else {
            return call.fail(.unauthenticated, "send an API key as authorization: Bearer KEY")
        }
        slices.clientKey = caller.clientKey
        call.caller = caller
        if lastCaller == nil { listener.admitted(self) }
        lastCaller = caller
        if isShuttingDown { return call.failShuttingDown() }
        if case .stream(let begin) = method.handler {
            call.client = caller.clientKey
            call.reader = begin(call)
        }
        if head.endStream { message(ByteBuffer(), id, isLast: true) }
    }

    private func message(_ bytes: ByteBuffer, _ id: HTTP2StreamID, isLast: Bool) {
        guard let call = calls[id] else { return }
        if isLast { call.isRequestComplete = true }
        switch call.method.handler {
        case .message(let handle):
            var message = bytes
            if !isLast || call.received.readableBytes > 0 {
                guard append(bytes, to: call) else { return }
                message = call.received
            }
            guard let length = messageLength(message, call), isLast else { return }
            guard message.readableBytes == Self.prefixLength + length else {
                return call.fail(.invalidArgument, "the call must have exactly one complete message")
            }
            release(call)
            message.moveReaderIndex(forwardBy: Self.prefixLength)
            budget.spend(messageOf: length)
            handle(call, message)
        case .stream: if append(bytes, to: call) { deliverMessages(call, isLast: isLast) }
        }
    }

    /// Appends bytes to the call's own buffer: a slice would keep the whole read buffer alive.
    /// - Returns: `false` if too much is buffered and the call has failed.
    private func append(_ bytes: ByteBuffer, to call: GRPCCall) -> Bool {
        received += bytes.readableBytes
        var bytes = bytes
        call.received.discardReadBytes()
        call.received.writeBuffer(&bytes)
        guard received > Self.maximumReceived else { return true }
        call.fail(.resourceExhausted, "the incomplete messages of this connection are too large in total")
        return false
    }

    /// Returns the length of the first buffered message, or 0 if its prefix is incomplete; `nil` if the message is
    /// refused and the call has failed.
    private func messageLength(_ buffered: ByteBuffer, _ call: GRPCCall) -> Int? {
        guard buffered.readableBytes >= Self.prefixLength else { return 0 }
        guard buffered.getInteger(at: buffered.readerIndex, as: UInt8.self) == 0 else {
            call.fail(.unimplemented, "compressed messages are not supported")
            return nil
        }
        let length = Int(buffered.getInteger(at: buffered.readerIndex + 1, as: UInt32.self) ?? 0)
        guard length <= Self.maximumMessageLength else {
            call.fail(.resourceExhausted, "a message can have at most \(Self.maximumMessageLength) bytes")
            return nil
        }
        return length
    }

    /// Passes the complete messages of a streaming request to its reader.
    private func deliverMessages(_ call: GRPCCall, isLast: Bool) {
        while !call.isOver, let reader = call.reader {
            guard let length = messageLength(call.received, call) else { return }
            guard call.received.readableBytes >= Self.prefixLength + length else {
                if call.received.readableBytes == 0 {
                    call.partialMessageSince = nil
                } else {
                    call.partialMessageSince = call.partialMessageSince ?? listener.now
                }
                guard isLast else { return }
                return call.received.readableBytes == 0
                    ? reader.ended() : call.fail(.invalidArgument, "the call ended in the middle of a message")
            }
            call.received.moveReaderIndex(forwardBy: Self.prefixLength)
            guard let message = call.received.readSlice(length: length) else { return }
            received -= Self.prefixLength + length
            // The bytes after a long message move to a new buffer. Otherwise each of many calls would retain a
            // mebibyte.
            if length > Self.maximumReusedLength { call.received = ByteBuffer(bytes: call.received.readableBytesView) }
            call.partialMessageSince = nil
            budget.spend(messageOf: length)
            guard !reader.received(message) else {
                call.consecutiveEmptyMessages = 0
                earn()
                continue
            }
            call.consecutiveEmptyMessages += 1
            budget.spend()
            // One read may carry thousands of such messages. The count keeps a call from failing because of what the
            // connection's other calls spent.
            if call.consecutiveEmptyMessages >= Self.maximumEmptyMessages, budget.isSpent, budget.pause(now: clock) > 0 {
                call.fail(.resourceExhausted, "too many of the call's messages carry no data")
            }
        }
    }

    /// Discards the buffered part of the message.
    private func release(_ call: GRPCCall) {
        received -= call.received.readableBytes
        call.received = ByteBuffer()
    }

    /// Replenishes a window once half of it is used, whatever became of the data: `maximumReceived` bounds the buffers.
    private func replenish(window: Int, of id: HTTP2StreamID) {
        guard window <= Self.window / 2, id == .rootStream || calls[id]?.reader != nil else { return }
        write(.windowUpdate(windowSizeIncrement: Self.window - window), id)
    }

    /// The flow-control window of the connection and of each streaming request, in bytes.
    private static let window = 1 << 20

    // MARK: Responses

    /// Shared, because getting the channel's own allocator takes as long as the allocation.
    private static let allocator = ByteBufferAllocator()
    private static let okHeaders = HPACKHeaders([(":status", "200"), ("content-type", "application/grpc")])
    private static let okTrailers = HPACKHeaders([("grpc-status", "0")])

    /// Sends the only message of a response and ends the call.
    func respond(to call: GRPCCall, _ message: some GRPCMessage) {
        guard write(message, of: call, written: nil) else { return }
        finish(call, Self.okTrailers)
        ended(call, .ok)
    }

    /// Sends one message of a streaming response.
    func send(_ call: GRPCCall, _ message: some GRPCMessage) {
        guard !call.isOver, let context else { return }
        guard call.unsent < Self.maximumUnsent else {
            // The client does not open its window for more messages.
            write(.rstStream(.enhanceYourCalm), call.stream)
            return cancel(call)
        }
        call.unsent += 1
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in call.unsent -= 1 }
        if !write(message, of: call, written: written) { written.succeed() }
    }

    /// Writes one message of a response.
    /// - Returns: whether the write completes `written`; if not, the caller must.
    private func write(_ message: some GRPCMessage, of call: GRPCCall, written: EventLoopPromise<Void>?) -> Bool {
        guard !call.isOver, context != nil else { return false }
        var buffer = Self.allocator.buffer(capacity: 256)
        buffer.writeInteger(UInt8(0))
        buffer.writeInteger(UInt32(0))
        do {
            try message.write(to: &buffer)
        } catch {
            end(call, .internal, "the response could not be written")
            return false
        }
        buffer.setInteger(UInt32(buffer.readableBytes - Self.prefixLength), at: buffer.readerIndex + 1)
        if !call.hasSentHeaders {
            call.hasSentHeaders = true
            write(.headers(.init(headers: Self.okHeaders)), call.stream)
        }
        write(.data(.init(data: .byteBuffer(buffer))), call.stream, written)
        return true
    }

    /// Ends a call without a response, or without a further message.
    func end(_ call: GRPCCall, _ status: GRPCStatus, _ message: String) {
        guard !call.isOver else { return }
        var headers = call.hasSentHeaders ? HPACKHeaders() : Self.okHeaders
        headers.add(name: "grpc-status", value: "\(status.rawValue)")
        if !message.isEmpty { headers.add(name: "grpc-message", value: GRPCStatus.encoded(message)) }
        finish(call, headers)
        ended(call, status)
    }

    /// Responds to a request that is not a gRPC call.
    private func refuse(_ call: GRPCCall, httpStatus: String) {
        finish(call, HPACKHeaders([(":status", httpStatus)]))
        remove(call)
    }

    /// Writes the last fields of a response. If the client is still sending its request, resets the stream once they
    /// are written; an earlier reset would discard them.
    private func finish(_ call: GRPCCall, _ fields: HPACKHeaders) {
        let last = HTTP2Frame.FramePayload.headers(.init(headers: fields, endStream: true))
        guard !call.isRequestComplete, let context else { return write(last, call.stream) }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenSuccess { [self, stream = call.stream] in write(.rstStream(.noError), stream) }
        write(last, call.stream, written)
    }

    private func ended(_ call: GRPCCall, _ status: GRPCStatus) {
        call.method.counters.answered(status, in: listener.now - call.began)
        switch status {
        case .ok, .unavailable, .notFound: earn()
        // Other failures are the client's fault and earn nothing.
        default: break
        }
        remove(call)
    }

    /// Credits the client for useful work, and resumes reading if the budget allows.
    private func earn() {
        budget.earn()
        if gate.isPaused, !budget.isSpent { gate.resume() }
    }

    private func remove(_ call: GRPCCall) {
        guard !call.isOver else { return }
        release(call)
        call.end()
        calls[call.stream] = nil
        guard calls.isEmpty else { return }
        if isShuttingDown { return closeAfterFlush() }
        idleSince = listener.now
    }

    private func write(
        _ payload: HTTP2Frame.FramePayload, _ id: HTTP2StreamID, _ promise: EventLoopPromise<Void>? = nil
    ) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: promise)
        scheduleFlush()
    }

    private func scheduleFlush() {
        guard !isFlushScheduled else { return }
        isFlushScheduled = true
        listener.flushes.plan(self)
    }

    func flush() {
        isFlushScheduled = false
        context?.flush()
    }

    // MARK: Giving up

    private func cancel(_ call: GRPCCall) {
        guard !call.isOver else { return }
        call.onCancellation?()
        call.method.counters.answered(.cancelled, in: listener.now - call.began)
        remove(call)
    }

    func deadlineReached() {
        if isEnding {
            context?.close(promise: nil)
            return
        }
        let now = listener.now
        // A GOAWAY waits for the end of the handshake, which may never come.
        if lastCaller == nil, firstRequestDeadline <= now { return hasReceivedFrames ? closeAfterFlush() : evict() }
        if let idleSince, idleSince + listener.idleTimeout <= now { return closeAfterFlush() }
        let limit = now - Self.messageTimeout
        for call in callsInOrder
        where !call.isRequestComplete && (call.reader == nil ? call.began : call.partialMessageSince ?? now) <= limit {
            call.fail(
                .deadlineExceeded,
                "the call's message did not arrive within \(Self.messageTimeout.nanoseconds / 1_000_000_000) seconds")
        }
        // Checked periodically: setting the timer for each call would cost a good part of the call itself.
        if !isEnding { timer?.set(now + Self.messageTimeout) }
    }

    /// Ends the calls of callers whose key was removed. If the last caller is one of them, the connection ends after
    /// its other calls.
    func endCalls(_ isRemoved: (AccessControl.Caller) -> Bool) {
        for call in callsInOrder where call.caller.map(isRemoved) ?? false {
            call.onCancellation?()
            call.fail(.unauthenticated, "the API key was removed; send another one")
        }
        guard let lastCaller, isRemoved(lastCaller), !isShuttingDown else { return }
        isShuttingDown = true
        if calls.isEmpty { return closeAfterFlush() }
        if let context { HTTP2Peer.sendGoAway(on: context, last: lastStream) }
    }

    /// Refuses new calls; those in progress are answered.
    func shutDown() {
        isShuttingDown = true
        for call in callsInOrder { call.onShutdown?() }
        if calls.isEmpty { return closeAfterFlush() }
        if let context { HTTP2Peer.sendGoAway(on: context, last: lastStream) }
    }

    private func closeAfterFlush() {
        guard !isEnding else { return }
        isEnding = true
        isShuttingDown = true
        timer?.set(listener.now + listener.unreadTimeout)
        if let context { HTTP2Peer.closeAfterFlush(context, last: lastStream) }
    }

    // MARK: Channel

    func connectionEnded() {
        for call in callsInOrder { cancel(call) }
        listener.disconnected(self)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // Each call causes several of these events. Comparing types is cheap, casting is not.
        let kind = type(of: event)
        if kind == NIOHTTP2WindowUpdatedEvent.self, let updated = event as? NIOHTTP2WindowUpdatedEvent {
            if let window = updated.inboundWindowSize { replenish(window: window, of: updated.streamID) }
        } else if kind == StreamClosedEvent.self, let closed = event as? StreamClosedEvent {
            if closed.reason != nil { calls[closed.streamID].map(cancel) }
        } else if kind == ChannelEvent.self, let event = event as? ChannelEvent {
            if event == .inputClosed { context.close(promise: nil) }
        } else if kind != NIOHTTP2StreamCreatedEvent.self {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if failureDetector.isConnectionEnded(by: error) { context.close(promise: nil) }
    }
}

internal import InterlockHTTP
internal import NIOCore
internal import NIOHPACK
internal import NIOHTTP1
internal import NIOHTTP2

/// A client's connection to the gRPC API (gRPC over HTTP/2). Handles the frames of all its streams itself, because a
/// channel for each stream would cost as much as a call's decision. Confined to the coordinator's event loop.
final class GRPCConnection: ChannelDuplexHandler, TimedConnection, FlushedConnection {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// The maximum length of a read, in bytes: fifty of the smallest frames, or about seven calls. With twice this
    /// length, a client waited nearly twice as long next to two clients that cancel their calls after a millisecond,
    /// and those two got a third fewer responses.
    static let readLength = 512
    /// The maximum length of a message, in bytes.
    static let maximumMessageLength = 1 << 20
    /// The maximum total length of a connection's incomplete messages, in bytes.
    static let maximumBufferedLength = 4 << 20
    /// The maximum length, in bytes, of a message after which the call keeps its buffer.
    private static let maximumReusedLength = 4096
    private static let maximumStreams = 256
    /// The maximum number of consecutive empty messages of one call while the client's frame budget is spent.
    private static let maximumEmptyMessages = 100
    /// The maximum number of a streaming response's messages that wait to be sent.
    private static let maximumUnsent = 64
    /// The bytes before each message: a compression flag and four bytes of length.
    private static let prefixLength = 5
    /// The time within which a call's message must arrive, which is also the interval at which this is checked.
    private static let messageTimeout = TimeAmount.seconds(10)
    /// The maximum number of body bytes that a client may send before one of its calls is accepted.
    private static let maximumUnauthenticatedBytes = 64 << 10

    private let listener: GRPCListenerContext
    private let slices: ConnectionSlices
    private let failureDetector = HTTP2FailureDetector()
    var context: ChannelHandlerContext?
    /// The calls in flight, by stream.
    private var calls: [HTTP2StreamID: GRPCCall] = [:]
    private let gate: UnreadResponseGate
    private var budget: FrameBudget
    private var lastStreamID = HTTP2StreamID.rootStream
    /// The total length of the calls' buffered bytes.
    private var bufferedLength = 0
    var timer: LazyTimer?
    private var isFlushScheduled = false
    /// Whether new calls are refused.
    private(set) var isShuttingDown = false
    /// Whether the connection closes once everything is written.
    private var isEnding = false
    /// The time at which the last call ended; `nil` if a call is in progress, or there was none.
    private var idleSince: NIODeadline?
    let firstRequestDeadline: NIODeadline
    /// The caller of the last accepted call; `nil` before the first.
    private var lastCaller: AccessControl.Caller?
    /// Whether frames have arrived. If so, the handshake is complete, and a GOAWAY can be sent.
    private var hasReceivedFrames = false
    /// The number of body bytes that arrived before a call was accepted.
    private var unauthenticatedBytes = 0

    private init(listener: GRPCListenerContext, slices: ConnectionSlices) {
        self.listener = listener
        self.slices = slices
        gate = UnreadResponseGate(unreadTimeout: listener.unreadTimeout)
        budget = FrameBudget(nowNanoseconds: Int64(clamping: listener.now.uptimeNanoseconds))
        firstRequestDeadline = listener.now + listener.firstRequestTimeout
    }

    /// The event loop's monotonic time.
    private var nowNanoseconds: Int64 { Int64(clamping: listener.now.uptimeNanoseconds) }

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
    private var callsInOrder: [GRPCCall] { calls.values.sorted { $0.streamID < $1.streamID } }

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
            return messageReceived(bytes, frame.streamID, isLast: data.endStream)
        }
        budget.spend()
        switch frame.payload {
        case .headers(let headers): headReceived(headers, frame.streamID)
        case .rstStream: calls[frame.streamID].map(cancel)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        guard budget.isSpent else { return }
        let pauseNanoseconds = budget.pauseNanoseconds(nowNanoseconds: nowNanoseconds)
        if pauseNanoseconds > 0 { gate.pause(.nanoseconds(pauseNanoseconds)) }
    }

    /// Begins a call, or ends its request if the fields are trailers.
    private func headReceived(_ head: HTTP2Frame.FramePayload.Headers, _ id: HTTP2StreamID) {
        guard id > lastStreamID else {
            // Trailers carry no information. The call may have ended before them.
            if head.endStream { messageReceived(ByteBuffer(), id, isLast: true) }
            return
        }
        lastStreamID = id
        idleSince = nil
        let path = head.headers.first(name: ":path") ?? ""
        let method = listener.methods[path] ?? listener.unknownMethod
        let call = GRPCCall(connection: self, streamID: id, method: method, startedAt: listener.now)
        call.isRequestComplete = head.endStream
        calls[id] = call
        guard GRPCStatus.isUsed(in: head.headers.first(name: "content-type")) else { return refuse(call, httpStatus: "415") }
        guard method !== listener.unknownMethod else { return call.fail(.unimplemented, "unknown method \(path)") }
        guard let caller = listener.caller(head.headers, from: context?.remoteAddress) else {
            return call.fail(.unauthenticated, "send an API key as authorization: Bearer KEY")
        }
        slices.clientName = caller.clientName
        call.caller = caller
        if lastCaller == nil { listener.clientAdmitted(self) }
        lastCaller = caller
        if isShuttingDown { return call.failShuttingDown() }
        if case .stream(let begin) = method.handler {
            call.clientName = caller.clientName
            call.reader = begin(call)
        }
        if head.endStream { messageReceived(ByteBuffer(), id, isLast: true) }
    }

    /// Handles the next bytes of a call's request. Delivers each message that is complete.
    private func messageReceived(_ bytes: ByteBuffer, _ id: HTTP2StreamID, isLast: Bool) {
        guard let call = calls[id] else { return }
        if isLast { call.isRequestComplete = true }
        switch call.method.handler {
        case .message(let handle):
            var message = bytes
            if !isLast || call.receivedBytes.readableBytes > 0 {
                guard append(bytes, to: call) else { return }
                message = call.receivedBytes
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

    /// Appends bytes to the call's own buffer, because a slice would keep the whole read buffer alive. Fails the call
    /// if too much is buffered.
    /// - Returns: `false` if the call has failed.
    private func append(_ bytes: ByteBuffer, to call: GRPCCall) -> Bool {
        bufferedLength += bytes.readableBytes
        var bytes = bytes
        call.receivedBytes.discardReadBytes()
        call.receivedBytes.writeBuffer(&bytes)
        guard bufferedLength > Self.maximumBufferedLength else { return true }
        call.fail(.resourceExhausted, "the incomplete messages of this connection are too large in total")
        return false
    }

    /// Returns the length of the first buffered message, or 0 if its prefix is incomplete. Fails the call and returns
    /// `nil` if the message is refused.
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
        while !call.hasEnded, let reader = call.reader {
            guard let length = messageLength(call.receivedBytes, call) else { return }
            guard call.receivedBytes.readableBytes >= Self.prefixLength + length else {
                if call.receivedBytes.readableBytes == 0 {
                    call.partialMessageSince = nil
                } else {
                    call.partialMessageSince = call.partialMessageSince ?? listener.now
                }
                guard isLast else { return }
                return call.receivedBytes.readableBytes == 0
                    ? reader.requestEnded() : call.fail(.invalidArgument, "the call ended in the middle of a message")
            }
            call.receivedBytes.moveReaderIndex(forwardBy: Self.prefixLength)
            guard let message = call.receivedBytes.readSlice(length: length) else { return }
            bufferedLength -= Self.prefixLength + length
            // The bytes after a long message move to a new buffer. Otherwise each of many calls would retain a
            // mebibyte.
            if length > Self.maximumReusedLength {
                call.receivedBytes = ByteBuffer(bytes: call.receivedBytes.readableBytesView)
            }
            call.partialMessageSince = nil
            budget.spend(messageOf: length)
            guard !reader.messageReceived(message) else {
                call.consecutiveEmptyMessageCount = 0
                earn()
                continue
            }
            call.consecutiveEmptyMessageCount += 1
            budget.spend()
            // One read may carry thousands of such messages. The call is not failed for what the connection's other
            // calls have spent: it must have sent many such messages itself.
            if call.consecutiveEmptyMessageCount >= Self.maximumEmptyMessages, budget.isSpent,
                budget.pauseNanoseconds(nowNanoseconds: nowNanoseconds) > 0
            {
                call.fail(.resourceExhausted, "too many of the call's messages carry no data")
            }
        }
    }

    /// Discards the call's buffered bytes.
    private func release(_ call: GRPCCall) {
        bufferedLength -= call.receivedBytes.readableBytes
        call.receivedBytes = ByteBuffer()
    }

    /// Replenishes a window once half of it is used, even if the data is still buffered: `maximumBufferedLength` limits
    /// the buffers.
    private func replenish(window: Int, of id: HTTP2StreamID) {
        guard window <= Self.window / 2, id == .rootStream || calls[id]?.reader != nil else { return }
        write(.windowUpdate(windowSizeIncrement: Self.window - window), id)
    }

    /// The flow-control window of the connection and of each streaming request, in bytes.
    private static let window = 1 << 20

    // MARK: Responses

    /// One allocator for all connections, because getting the channel's own one takes as long as the allocation.
    private static let allocator = ByteBufferAllocator()
    private static let okHeaders = HPACKHeaders([(":status", "200"), ("content-type", "application/grpc")])
    private static let okTrailers = HPACKHeaders([("grpc-status", "0")])

    /// Sends the only message of a response and ends the call.
    func respond(to call: GRPCCall, _ message: some GRPCMessage) {
        guard write(message, of: call, written: nil) else { return }
        finish(call, Self.okTrailers)
        callEnded(call, .ok)
    }

    /// Sends one message of a streaming response.
    func send(_ call: GRPCCall, _ message: some GRPCMessage) {
        guard !call.hasEnded, let context else { return }
        guard call.unsentCount < Self.maximumUnsent else {
            // The client does not read its messages: it leaves its window closed.
            write(.rstStream(.enhanceYourCalm), call.streamID)
            return cancel(call)
        }
        call.unsentCount += 1
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in call.unsentCount -= 1 }
        if !write(message, of: call, written: written) { written.succeed() }
    }

    /// Writes one message of a response.
    /// - Returns: whether the write completes `written`; if not, the caller must.
    private func write(_ message: some GRPCMessage, of call: GRPCCall, written: EventLoopPromise<Void>?) -> Bool {
        guard !call.hasEnded, context != nil else { return false }
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
            write(.headers(.init(headers: Self.okHeaders)), call.streamID)
        }
        write(.data(.init(data: .byteBuffer(buffer))), call.streamID, written)
        return true
    }

    /// Ends a call without a response, or without a further message.
    func end(_ call: GRPCCall, _ status: GRPCStatus, _ message: String) {
        guard !call.hasEnded else { return }
        var headers = call.hasSentHeaders ? HPACKHeaders() : Self.okHeaders
        headers.add(name: "grpc-status", value: "\(status.rawValue)")
        if !message.isEmpty { headers.add(name: "grpc-message", value: GRPCStatus.encoded(message)) }
        finish(call, headers)
        callEnded(call, status)
    }

    /// Responds to a request that is not a gRPC call.
    private func refuse(_ call: GRPCCall, httpStatus: String) {
        finish(call, HPACKHeaders([(":status", httpStatus)]))
        remove(call)
    }

    /// Writes the last fields of a response. If the client is still sending its request, resets the stream once the
    /// fields are written. An earlier reset would discard them.
    private func finish(_ call: GRPCCall, _ fields: HPACKHeaders) {
        let lastFrame = HTTP2Frame.FramePayload.headers(.init(headers: fields, endStream: true))
        guard !call.isRequestComplete, let context else { return write(lastFrame, call.streamID) }
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenSuccess { [self, streamID = call.streamID] in
            write(.rstStream(.noError), streamID)
        }
        write(lastFrame, call.streamID, written)
    }

    private func callEnded(_ call: GRPCCall, _ status: GRPCStatus) {
        call.method.counters.recordResponse(status, in: listener.now - call.startedAt)
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
        guard !call.hasEnded else { return }
        release(call)
        call.end()
        calls[call.streamID] = nil
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
        listener.flushes.scheduleFlush(of: self)
    }

    func flush() {
        isFlushScheduled = false
        context?.flush()
    }

    // MARK: Cancellation and shutdown

    private func cancel(_ call: GRPCCall) {
        guard !call.hasEnded else { return }
        call.onCancellation?()
        call.method.counters.recordResponse(.cancelled, in: listener.now - call.startedAt)
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
        let cutoff = now - Self.messageTimeout
        for call in callsInOrder where !call.isRequestComplete {
            let waitingSince = call.reader == nil ? call.startedAt : call.partialMessageSince ?? now
            guard waitingSince <= cutoff else { continue }
            call.fail(
                .deadlineExceeded,
                "the call's message did not arrive within \(Self.messageTimeout.nanoseconds / 1_000_000_000) seconds")
        }
        // The check is periodic, because setting the timer for each call would cost a large part of the call itself.
        if !isEnding { timer?.set(now + Self.messageTimeout) }
    }

    /// Ends the calls of callers whose key was removed. If the last caller is one of them, the connection closes after
    /// its other calls.
    func endCalls(_ isRemoved: (AccessControl.Caller) -> Bool) {
        for call in callsInOrder where call.caller.map(isRemoved) ?? false {
            call.onCancellation?()
            call.fail(.unauthenticated, "the API key was removed; send another one")
        }
        guard let lastCaller, isRemoved(lastCaller), !isShuttingDown else { return }
        isShuttingDown = true
        if calls.isEmpty { return closeAfterFlush() }
        if let context { HTTP2Peer.sendGoAway(on: context, last: lastStreamID) }
    }

    /// Refuses new calls. Calls in progress still get their responses.
    func shutDown() {
        isShuttingDown = true
        for call in callsInOrder { call.onShutdown?() }
        if calls.isEmpty { return closeAfterFlush() }
        if let context { HTTP2Peer.sendGoAway(on: context, last: lastStreamID) }
    }

    private func closeAfterFlush() {
        guard !isEnding else { return }
        isEnding = true
        isShuttingDown = true
        timer?.set(listener.now + listener.unreadTimeout)
        if let context { HTTP2Peer.closeAfterFlush(context, last: lastStreamID) }
    }

    // MARK: Channel

    func connectionEnded() {
        for call in callsInOrder { cancel(call) }
        listener.connectionClosed(self)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        // Each call causes several of these events. Comparing types is cheap, but casting is not.
        let eventType = type(of: event)
        if eventType == NIOHTTP2WindowUpdatedEvent.self, let update = event as? NIOHTTP2WindowUpdatedEvent {
            if let window = update.inboundWindowSize { replenish(window: window, of: update.streamID) }
        } else if eventType == StreamClosedEvent.self, let closing = event as? StreamClosedEvent {
            if closing.reason != nil { calls[closing.streamID].map(cancel) }
        } else if eventType == ChannelEvent.self, let event = event as? ChannelEvent {
            if event == .inputClosed { context.close(promise: nil) }
        } else if eventType != NIOHTTP2StreamCreatedEvent.self {
            context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if failureDetector.isConnectionEnded(by: error) { context.close(promise: nil) }
    }
}

internal import InterlockHTTP
internal import NIOCore

/// Passes a connection's bytes on in pieces while its slice lasts, and buffers the rest for the next slice. Comes
/// before the protocol's handlers in the pipeline. Pauses reading while `ConnectionSlices.readAhead` bytes or more are
/// buffered, and flushes the writes of a slice at its end. Over HTTP/1.1, also preserves the bytes of header fields.
/// Confined to the event loop.
final class SliceGate: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// The protocol of a connection. The raw value is the maximum number of bytes that are passed on between two checks
    /// of the clock.
    enum Piece: Int {
        /// About fifty of the smallest requests, which the decoder reads in about 100 µs. The requests themselves check
        /// the clock one by one.
        case http1 = 1024
        /// About five of the smallest frames, each of which may begin a stream, at 30 µs.
        case http2 = 64
        /// About twenty of the smallest frames. Streams of the gRPC API cost a fifth as much as those of HTTP/2.
        case grpc = 256
        /// A complete TLS handshake, which is one piece of work however it arrives.
        case handshake = 16_384
    }

    private let slices: ConnectionSlices
    private let piece: Piece
    private let fields: FieldBytes?
    private var frames: FrameBoundaries?
    private var buffered = ByteBuffer()
    /// Whether the output was closed, so that nothing more is written and the remaining input is dropped.
    private var isOutputClosed = false
    private var context: ChannelHandlerContext?
    /// Whether a read was requested while too much was buffered. It is made when the buffer is empty.
    private var isReadRequested = false
    /// Whether the client closed its side while bytes were buffered. The event is passed on after them.
    private var isInputClosed = false
    /// Whether a flush waits for the end of the slice.
    private var isFlushHeld = false
    /// Whether `channelReadComplete` is running, during which the channel must not be closed directly.
    private var isReadCompleting = false

    init(_ slices: ConnectionSlices, _ piece: Piece, keeping fields: FieldBytes? = nil) {
        self.slices = slices
        self.piece = piece
        self.fields = fields
        if hasFrames { frames = FrameBoundaries(prefaceLength: FrameBoundaries.prefaceLength) }
    }

    private var hasFrames: Bool { piece == .http2 || piece == .grpc }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        // The handshake's own gate precedes this one and sees its flushes.
        if piece != .handshake { slices.beforeEnd = { [self] in flushHeld() } }
    }

    func handlerRemoved(context: ChannelHandlerContext) { releaseConnection() }

    /// Releases everything, because the connection has ended.
    private func releaseConnection() {
        context = nil
        buffered = ByteBuffer()
        if piece != .handshake { slices.beforeEnd = nil }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // The remaining input is read and dropped even without a slice, so charge its cost afterwards.
        if isOutputClosed { slices.charge(ConnectionSlices.costOfDrop) }
        let bytes = unwrapInboundIn(data)
        guard buffered.readableBytes == 0 else { return buffered.append(unread: bytes) }
        let mayBegin = slices.begin()
        // The usual read is passed on without a copy.
        if mayBegin, !hasFrames, bytes.readableBytes <= piece.rawValue { return forward(bytes, data, context) }
        buffered = bytes
        if mayBegin { forward(context) } else { resumeLater() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReadCompleting = true
        context.fireChannelReadComplete()
        slices.end()
        isReadCompleting = false
    }

    private func forward(_ context: ChannelHandlerContext) {
        repeat {
            guard let next = buffered.readSlice(length: lengthOfNextPart()) else { break }
            forward(next, wrapInboundOut(next), context)
            guard self.context != nil else { return }
            // Streams deliver their reads on `channelReadComplete`.
            if hasFrames { context.fireChannelReadComplete() }
            guard self.context != nil else { return }
        } while buffered.readableBytes > 0 && slices.mayContinue
        if buffered.readableBytes > 0 { resumeLater() } else { buffered = ByteBuffer() }
    }

    private func forward(_ bytes: ByteBuffer, _ data: NIOAny, _ context: ChannelHandlerContext) {
        guard let fields else { return context.fireChannelRead(data) }
        fields.read(bytes) { context.fireChannelRead(data) }
    }

    private func lengthOfNextPart() -> Int {
        let limit = piece.rawValue
        // The client gets no further responses, so the rest of its bytes is dropped at once.
        guard !isOutputClosed else { return buffered.readableBytes }
        guard frames != nil else { return min(limit, buffered.readableBytes) }
        return buffered.withUnsafeReadableBytes { frames?.lengthOfNextPart($0, targetLength: limit) ?? limit }
    }

    private func resumeLater() {
        slices.later { [self] in
            guard let context else { return }
            forward(context)
            context.fireChannelReadComplete()
            guard buffered.readableBytes == 0 else { return }
            if isInputClosed {
                isInputClosed = false
                context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            }
            if isReadRequested {
                isReadRequested = false
                context.read()
            }
        }
    }

    func read(context: ChannelHandlerContext) {
        guard buffered.readableBytes < ConnectionSlices.readAhead else { return isReadRequested = true }
        if slices.beginRead() { context.read() } else { slices.readLater { [self] in self.context?.read() } }
    }

    func flush(context: ChannelHandlerContext) {
        guard piece != .handshake else { return context.flush() }
        guard !isFlushHeld else {
            // Under TLS the channel counts only flushed bytes: a relayed response would pile up behind a delayed flush.
            if piece == .http1, !slices.isRunning { flushHeld() }
            return
        }
        isFlushHeld = true
        guard !slices.isRunning else { return }
        if slices.beginWrite() { flushHeld() } else { slices.writeLater { [self] in flushHeld() } }
    }

    private func flushHeld() {
        while isFlushHeld, let context {
            isFlushHeld = false
            context.flush()
        }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if mode != .input { isOutputClosed = true }
        flushHeld()
        guard isReadCompleting else { return context.close(mode: mode, promise: promise) }
        // NIO continues the read in which the input ended, and would treat the closed channel as open.
        context.eventLoop.assumeIsolated().execute { context.close(mode: mode, promise: promise) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event, buffered.readableBytes > 0 { return isInputClosed = true }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        releaseConnection()
        context.fireChannelInactive()
    }
}

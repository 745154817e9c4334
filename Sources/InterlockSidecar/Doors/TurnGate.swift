internal import InterlockHTTP
internal import NIOCore

/// Hands a connection's bytes on piece by piece while its slice lasts, and keeps the rest for the next one. Stands before the
/// protocol's own handlers. No more is read while something is kept. Confined to the event loop.
final class TurnGate: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer

    /// The most that is handed on between two looks at the clock, in bytes.
    enum Piece: Int {
        /// Some hundred of the smallest requests, which the decoder reads in less than half a millisecond. The requests themselves
        /// look at the clock one by one.
        case http1 = 4096
        /// Some fifty of the smallest frames.
        case http2 = 512
        /// A TLS handshake is one piece of work, whatever it has come in.
        case handshake = 16_384
    }

    private let turn: ClientTurn
    private let piece: Int
    private var frames: FrameBoundaries?
    private var kept = ByteBuffer()
    private var context: ChannelHandlerContext?
    private var isReadAsked = false
    private var isInputClosed = false

    init(_ turn: ClientTurn, _ piece: Piece) {
        self.turn = turn
        self.piece = piece.rawValue
        if piece == .http2 { frames = FrameBoundaries(prefaceLength: FrameBoundaries.prefaceLength) }
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        guard kept.readableBytes == 0 else {
            kept.writeBuffer(&bytes)
            return
        }
        kept = bytes
        if turn.begin() { handOn(context) } else { goOnLater() }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        context.fireChannelReadComplete()
        turn.end()
    }

    private func handOn(_ context: ChannelHandlerContext) {
        repeat {
            guard let next = kept.readSlice(length: lengthOfNext()) else { break }
            context.fireChannelRead(wrapInboundOut(next))
            guard self.context != nil else { return }
        } while kept.readableBytes > 0 && turn.mayGoOn
        if kept.readableBytes > 0 { goOnLater() } else { kept = ByteBuffer() }
    }

    private func lengthOfNext() -> Int {
        guard frames != nil else { return min(piece, kept.readableBytes) }
        return kept.withUnsafeReadableBytes { frames?.lengthOfNext($0, about: piece) ?? piece }
    }

    private func goOnLater() {
        turn.later { [self] in
            guard let context else { return }
            handOn(context)
            context.fireChannelReadComplete()
            guard kept.readableBytes == 0 else { return }
            if isInputClosed {
                isInputClosed = false
                context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            }
            if isReadAsked {
                isReadAsked = false
                context.read()
            }
        }
    }

    func read(context: ChannelHandlerContext) {
        if kept.readableBytes > 0 { isReadAsked = true } else { context.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event, kept.readableBytes > 0 { return isInputClosed = true }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        kept = ByteBuffer()
        context.fireChannelInactive()
    }
}

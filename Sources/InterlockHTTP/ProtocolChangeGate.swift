internal import NIOCore

/// Holds back the bytes after a response that switches protocols: NIO's decoder would lose them if the connection ended
/// before the protocol's handler is installed.
final class ProtocolChangeGate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private enum State {
        /// The head of the response has not arrived.
        case closed
        /// The response switches protocols, so all bytes after its head are held back.
        case holding
        /// All bytes are passed on.
        case open
    }

    private static let headEnd = Array("\r\n\r\n".utf8)
    private static let informationalStarts = [Array("HTTP/1.1 1".utf8), Array("HTTP/1.0 1".utf8)]
    private static let switchingStarts = [Array("HTTP/1.1 101".utf8), Array("HTTP/1.0 101".utf8)]
    private static let maximumHeadLength = 512 * 1024

    private var state = State.closed
    private var held = ByteBuffer()

    /// Passes on everything that arrives from now on.
    /// - Returns: the bytes that were held back.
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
            // Other informational responses may come first.
            guard Self.informationalStarts.contains(where: view.starts(with:)) else {
                return context.fireChannelRead(wrapInboundOut(open()))
            }
            if Self.switchingStarts.contains(where: view.starts(with:)) { state = .holding }
            guard let head = held.readSlice(length: view.distance(from: view.startIndex, to: end.upperBound)) else { return }
            context.fireChannelRead(wrapInboundOut(head))
        }
        if state == .closed, held.readableBytes > Self.maximumHeadLength { context.fireChannelRead(wrapInboundOut(open())) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if state == .closed, held.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(open())) }
        context.fireChannelInactive()
    }
}

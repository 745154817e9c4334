internal import NIOCore
internal import NIOHTTP1

/// Encodes the requests of a client's connection with a `MessageEncoder`. This is a channel handler because NIO's
/// response decoder must see the requests.
final class ClientRequestEncoder: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = IOData

    private var encoder = MessageEncoder()

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head): encoder.append(head)
        case .body(let bytes): guard encoder.append(bytes) else { return write(bytes, to: context, promise: promise) }
        case .end(let trailers): encoder.appendEnd(trailers)
        }
        if promise != nil || encoder.isFull { context.write(wrapOutboundOut(.byteBuffer(encoder.take())), promise: promise) }
    }

    /// Writes a body part without copying it.
    private func write(_ bytes: IOData, to context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        if !encoder.isEmpty { context.write(wrapOutboundOut(.byteBuffer(encoder.take())), promise: nil) }
        encoder.appendEndOfPart()
        context.write(wrapOutboundOut(bytes), promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        if !encoder.isEmpty { context.write(wrapOutboundOut(.byteBuffer(encoder.take())), promise: nil) }
        context.flush()
    }
}

package import NIOCore
package import NIOHTTP1

/// Writes the responses on a server's connection: as bytes over HTTP/1.1, as parts for NIO's codec over HTTP/2.
/// Confined to the connection's event loop.
package final class ResponseWriter {
    private let isHTTP2: Bool
    private var encoder = MessageEncoder()

    package init(isHTTP2: Bool) {
        self.isHTTP2 = isHTTP2
    }

    package func write(_ part: HTTPServerResponsePart, to context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        guard !isHTTP2 else { return context.write(NIOAny(Self.readable(part)), promise: promise) }
        switch part {
        case .head(let head): encoder.append(head)
        case .body(let bytes): guard encoder.append(bytes) else { return write(bytes, to: context, promise: promise) }
        case .end(let trailers): encoder.appendEnd(trailers)
        }
        if promise != nil || encoder.isFull { context.write(NIOAny(encoder.take()), promise: promise) }
    }

    /// Writes a body part without copying it.
    private func write(_ bytes: IOData, to context: ChannelHandlerContext, promise: EventLoopPromise<Void>?) {
        if !encoder.isEmpty { context.write(NIOAny(encoder.take()), promise: nil) }
        encoder.appendEndOfPart()
        context.write(NIOAny(bytes), promise: promise)
    }

    package func flush(_ context: ChannelHandlerContext) {
        if !encoder.isEmpty { context.write(NIOAny(encoder.take()), promise: nil) }
        context.flush()
    }

    private static func readable(_ part: HTTPServerResponsePart) -> HTTPServerResponsePart {
        switch part {
        case .head(var head):
            head.headers = OpaqueText.readable(head.headers)
            return .head(head)
        case .body: return part
        case .end(let trailers): return .end(trailers.map(OpaqueText.readable))
        }
    }
}

package import NIOCore
package import NIOHTTP1

/// Keeps the bytes of a connection's fields unchanged although NIO has them as text, and leaves out the space around
/// values. Confined to the connection's event loop.
///
/// Over HTTP/1.1 there are three places in a pipeline for it: before the encoder, before the decoder, and behind both
/// (`ServerFields`, `ClientFields`). NIO's decoder puts U+FFFD in the place of bytes that are not UTF-8. Where a
/// decoded value has one, the value is read again from the bytes that came, as `OpaqueText`; the encoder's bytes are
/// turned back. A head that begins in the same read as the message before it ends, and ends in another, is not read
/// again.
///
/// NIO's HPACK decoder works on text as well, and its table counts the bytes of that text, so that nothing outside of
/// it can put bytes through: over HTTP/2 a value that is not UTF-8 arrives repaired, and is sent as
/// `OpaqueText.readable` has it.
final class FieldBytes {
    private let isHTTP2: Bool
    private var raw = RawFields()
    /// Whether the head or the trailers that are written next have characters that stand for bytes.
    fileprivate private(set) var isEscaped = false
    /// A head has come, and its message has not ended.
    private var isInMessage = false
    private var hasDecoded = false
    private var isOver = false

    init(isHTTP2: Bool) {
        self.isHTTP2 = isHTTP2
    }

    /// Nothing more is decoded or encoded.
    func end() {
        isOver = true
        raw.clear()
    }

    // MARK: What comes

    fileprivate func readBegins(_ bytes: ByteBuffer) {
        guard !isOver else { return }
        if isInMessage { raw.clear() }
        raw.append(bytes)
        hasDecoded = false
    }

    /// Only the beginning of a head is kept until the next read.
    fileprivate func readEnded() {
        if isInMessage || hasDecoded { raw.clear() }
    }

    /// - Returns: the fields of a head, where they are not as they were decoded; `nil`: they are.
    func decodedHead(_ fields: HTTPHeaders, isInformational: Bool = false) -> HTTPHeaders? {
        isInMessage = !isInformational
        hasDecoded = true
        return restored(fields)
    }

    /// The same of trailers.
    func decodedEnd(_ trailers: HTTPHeaders?) -> HTTPHeaders? {
        isInMessage = false
        hasDecoded = true
        return trailers.flatMap(restored)
    }

    private func restored(_ fields: HTTPHeaders) -> HTTPHeaders? {
        guard fields.contains(where: { OpaqueText.isOdd($0.value) }) else { return nil }
        var restored = HTTPHeaders()
        restored.reserveCapacity(fields.count)
        for (name, value) in fields {
            let value = OpaqueText.trimmed(value) ?? value
            let found = isHTTP2 || !OpaqueText.isSuspect(value) ? nil : raw.value(of: name, readAs: value)
            restored.add(name: name, value: found ?? value)
        }
        return restored
    }

    // MARK: What is written

    /// Encodes a head or trailers.
    /// - Parameter encode: is given the fields to encode where they are others; `nil`: they are as they were.
    func encode(_ fields: HTTPHeaders?, _ encode: (HTTPHeaders?) -> Void) {
        guard let fields, fields.contains(where: { OpaqueText.isEscaped($0.value) }) else { return encode(nil) }
        guard !isHTTP2 else { return encode(HTTPHeaders(fields.map { ($0.name, OpaqueText.readable($0.value)) })) }
        // The encoder writes them now, in one piece.
        isEscaped = true
        encode(nil)
        isEscaped = false
    }
}

/// Notes the bytes that the decoder is given.
final class FieldBytesReader: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let fields: FieldBytes

    init(_ fields: FieldBytes) {
        self.fields = fields
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        fields.readBegins(unwrapInboundIn(data))
        context.fireChannelRead(data)
        fields.readEnded()
    }
}

/// Turns the characters that stand for bytes back into these.
final class FieldBytesWriter: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    private let fields: FieldBytes

    init(_ fields: FieldBytes) {
        self.fields = fields
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard fields.isEscaped, case .byteBuffer(let buffer) = unwrapOutboundIn(data) else {
            return context.write(data, promise: promise)
        }
        let bytes = context.channel.allocator.buffer(bytes: OpaqueText.bytes(of: buffer.readableBytesView))
        context.write(wrapOutboundOut(.byteBuffer(bytes)), promise: promise)
    }
}

/// The fields of what a server's client sends and is sent: behind the encoder and the decoder.
package final class ServerFields: ChannelDuplexHandler, RemovableChannelHandler {
    package typealias InboundIn = HTTPServerRequestPart
    package typealias InboundOut = HTTPServerRequestPart
    package typealias OutboundIn = HTTPServerResponsePart
    package typealias OutboundOut = HTTPServerResponsePart

    private let fields: FieldBytes

    private init(_ fields: FieldBytes) {
        self.fields = fields
    }

    /// For a stream of HTTP/2.
    package static func ofStream() -> ServerFields { ServerFields(FieldBytes(isHTTP2: true)) }

    /// Installs the encoder and the decoder of a connection of HTTP/1.1 with what is around them.
    package static func install(
        _ encoder: HTTPResponseEncoder, _ decoder: HTTPRequestDecoder, in pipeline: ChannelPipeline.SynchronousOperations
    ) throws {
        let fields = FieldBytes(isHTTP2: false)
        try pipeline.addHandlers(
            FieldBytesWriter(fields), encoder, FieldBytesReader(fields), ByteToMessageHandler(decoder), ServerFields(fields))
    }

    package func handlerRemoved(context: ChannelHandlerContext) { fields.end() }

    /// The decoder reads nothing behind an error.
    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fields.end()
        context.fireErrorCaught(error)
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            guard let restored = fields.decodedHead(head.headers) else { return context.fireChannelRead(data) }
            head.headers = restored
            context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body: context.fireChannelRead(data)
        case .end(let trailers):
            let restored = fields.decodedEnd(trailers)
            context.fireChannelRead(restored.map { wrapInboundOut(.end($0)) } ?? data)
        }
    }

    package func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            fields.encode(head.headers) { other in
                guard let other else { return context.write(data, promise: promise) }
                head.headers = other
                context.write(wrapOutboundOut(.head(head)), promise: promise)
            }
        case .body: context.write(data, promise: promise)
        case .end(let trailers):
            fields.encode(trailers) { other in
                context.write(other.map { wrapOutboundOut(.end($0)) } ?? data, promise: promise)
            }
        }
    }
}

/// The fields of what a client's server is sent and sends: behind the encoder and the decoder.
final class ClientFields: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias InboundOut = HTTPClientResponsePart
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = HTTPClientRequestPart

    private let fields: FieldBytes

    init(_ fields: FieldBytes) {
        self.fields = fields
    }

    func handlerRemoved(context: ChannelHandlerContext) { fields.end() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(var head):
            let isInformational = 100..<200 ~= head.status.code && head.status != .switchingProtocols
            guard let restored = fields.decodedHead(head.headers, isInformational: isInformational) else {
                return context.fireChannelRead(data)
            }
            head.headers = restored
            context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body: context.fireChannelRead(data)
        case .end(let trailers):
            let restored = fields.decodedEnd(trailers)
            context.fireChannelRead(restored.map { wrapInboundOut(.end($0)) } ?? data)
        }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            fields.encode(head.headers) { other in
                guard let other else { return context.write(data, promise: promise) }
                head.headers = other
                context.write(wrapOutboundOut(.head(head)), promise: promise)
            }
        case .body: context.write(data, promise: promise)
        case .end(let trailers):
            fields.encode(trailers) { other in
                context.write(other.map { wrapOutboundOut(.end($0)) } ?? data, promise: promise)
            }
        }
    }
}

import InterlockCore
import NIOCore
import NIOEmbedded
import NIOHTTP1
import Testing

@testable import InterlockHTTP

@Suite("Encoded messages")
struct MessageEncoderTests {
    /// Returns all bytes that were written to the channel, as one string.
    private static func written(_ channel: EmbeddedChannel) throws -> String {
        var all = ByteBuffer()
        while let part = try channel.readOutbound(as: IOData.self) {
            if case .byteBuffer(let bytes) = part { all.writeImmutableBuffer(bytes) }
        }
        return String(buffer: all)
    }

    private static func encoded(_ write: (inout MessageEncoder) -> Void) -> String {
        var encoder = MessageEncoder()
        write(&encoder)
        return String(buffer: encoder.take())
    }

    private static func append(_ part: ByteBuffer, to encoder: inout MessageEncoder, _ all: inout ByteBuffer) {
        guard !encoder.append(.byteBuffer(part)) else { return }
        all.writeImmutableBuffer(encoder.take())
        all.writeImmutableBuffer(part)
        encoder.appendEndOfPart()
    }

    private static func fields(_ random: inout SeededRandom) -> HTTPHeaders {
        let some: [(String, String)] = [
            ("Content-Length", "5"), ("content-length", "5"), ("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "gzip"),
            ("Host", "example.org"), ("X-Name", "Zoë"), ("Empty", ""), ("Long", String(repeating: "x", count: 5000)),
            ("X-Content-Length", "3"), ("If-Modified-Since", "never"),
        ]
        return HTTPHeaders((0..<Int.random(in: 0...6, using: &random)).compactMap { _ in some.randomElement(using: &random) })
    }

    private static func body(_ random: inout SeededRandom) -> [ByteBuffer] {
        (0..<Int.random(in: 0...3, using: &random)).map { _ in
            ByteBuffer(repeating: 0x62, count: [0, 5, 4096, 4097, 70_000].randomElement(using: &random) ?? 0)
        }
    }

    private static func trailers(_ random: inout SeededRandom) -> HTTPHeaders? {
        Bool.random(using: &random) ? nil : ["Trailer-Name": "value"]
    }

    /// Returns three messages with random bodies and trailers, encoded by NIO and by `MessageEncoder`.
    private static func encodedTwice<Head: Equatable & Sendable>(
        by handler: any ChannelHandler, _ random: inout SeededRandom, head: (inout SeededRandom) -> Head,
        append: (Head, inout MessageEncoder) -> Void
    ) throws -> (expected: String, encoded: String) {
        let channel = EmbeddedChannel(handler: handler)
        var encoder = MessageEncoder()
        var all = ByteBuffer()
        for _ in 0..<3 {
            let head = head(&random)
            try channel.writeOutbound(HTTPPart<Head, IOData>.head(head))
            append(head, &encoder)
            for part in body(&random) {
                try channel.writeOutbound(HTTPPart<Head, IOData>.body(.byteBuffer(part)))
                self.append(part, to: &encoder, &all)
            }
            let trailers = trailers(&random)
            try channel.writeOutbound(HTTPPart<Head, IOData>.end(trailers))
            encoder.appendEnd(trailers)
            all.writeImmutableBuffer(encoder.take())
        }
        return (try written(channel), String(buffer: all))
    }

    private static func version(_ random: inout SeededRandom) -> HTTPVersion { Bool.random(using: &random) ? .http1_1 : .http1_0 }

    @Test("NIO's encoder writes the same responses", arguments: 0..<300)
    func nioEncoderWritesSameResponses(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let statuses: [HTTPResponseStatus] = [
            .ok, .noContent, .notModified, .continue, .custom(code: 299, reasonPhrase: "Odd"), .badGateway,
        ]
        let (expected, encoded) = try Self.encodedTwice(by: HTTPResponseEncoder(), &random) {
            HTTPResponseHead(
                version: Self.version(&$0), status: statuses.randomElement(using: &$0) ?? .ok, headers: Self.fields(&$0))
        } append: {
            $1.append($0)
        }
        #expect(expected == encoded)
    }

    @Test("NIO's encoder writes the same requests", arguments: 0..<300)
    func nioEncoderWritesSameRequests(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let methods: [HTTPMethod] = [.GET, .HEAD, .POST, .PUT, .PATCH, .DELETE, .TRACE, .OPTIONS, .RAW(value: "PURGE")]
        let (expected, encoded) = try Self.encodedTwice(by: HTTPRequestEncoder(), &random) {
            HTTPRequestHead(
                version: Self.version(&$0), method: methods.randomElement(using: &$0) ?? .GET, uri: "/a?b=c",
                headers: Self.fields(&$0))
        } append: {
            $1.append($0)
        }
        #expect(expected == encoded)
    }

    @Test("A small reply is one buffer")
    func oneBuffer() throws {
        let response = Self.encoded { encoder in
            encoder.append(HTTPResponseHead(version: .http1_1, status: .ok, headers: ["Content-Length": "2"]))
            let isCopied = encoder.append(.byteBuffer(ByteBuffer(string: "ok")))
            #expect(isCopied)
            encoder.appendEnd(nil)
        }
        #expect(response == "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }

    @Test("Bytes that are not UTF-8 pass unchanged in heads and trailers")
    func bytes() {
        var encoder = MessageEncoder()
        let value = OpaqueText.text(of: [0x63, 0xE9])
        encoder.append(HTTPResponseHead(version: .http1_1, status: .ok, headers: ["A": value, "B": "Zoë"]))
        encoder.appendEnd(["C": value])
        let expected =
            Array("HTTP/1.1 200 OK\r\nA: c".utf8) + [0xE9]
            + Array("\r\nB: Zoë\r\ntransfer-encoding: chunked\r\n\r\n0\r\nC: c".utf8) + [0xE9] + Array("\r\n\r\n".utf8)
        #expect(Array(encoder.take().readableBytesView) == expected)
    }

    @Test("Write promises succeed in order whether or not the part is copied")
    func promises() throws {
        let channel = EmbeddedChannel()
        let writer = ResponseWriter(isHTTP2: false)
        try channel.pipeline.syncOperations.addHandler(Idle())
        let context = try channel.pipeline.syncOperations.context(handlerType: Idle.self)
        var kept: [Int] = []
        let parts: [HTTPServerResponsePart] = [
            .head(HTTPResponseHead(version: .http1_1, status: .ok)), .body(.byteBuffer(ByteBuffer(repeating: 1, count: 10_000))),
            .body(.byteBuffer(ByteBuffer())), .end(nil),
        ]
        for (number, part) in parts.enumerated() {
            let promise = channel.eventLoop.makePromise(of: Void.self)
            promise.futureResult.assumeIsolated().whenSuccess { kept.append(number) }
            writer.write(part, to: context, promise: promise)
        }
        #expect(kept.isEmpty)
        writer.flush(context)
        #expect(kept == [0, 1, 2, 3])
    }

    @Test("Most of many small unflushed replies are passed to the channel, which counts them")
    func counted() throws {
        let channel = EmbeddedChannel()
        let writer = ResponseWriter(isHTTP2: false)
        let counter = Counter()
        try channel.pipeline.syncOperations.addHandlers(counter, Idle())
        let context = try channel.pipeline.syncOperations.context(handlerType: Idle.self)
        for _ in 0..<200 {
            writer.write(.head(HTTPResponseHead(version: .http1_1, status: .ok)), to: context, promise: nil)
            writer.write(.body(.byteBuffer(ByteBuffer(repeating: 1, count: 1000))), to: context, promise: nil)
            writer.write(.end(nil), to: context, promise: nil)
        }
        #expect(counter.bytes > 180_000)
    }

    private final class Counter: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        private(set) var bytes = 0

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            bytes += unwrapOutboundIn(data).readableBytes
            context.write(data, promise: promise)
        }
    }

    private final class Idle: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
    }
}

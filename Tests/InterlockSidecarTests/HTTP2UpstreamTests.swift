import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import Testing

@testable import InterlockSidecar

@Suite("Proxy: upstreams of HTTP/2 that fail", .timeLimit(.minutes(1)))
struct HTTP2UpstreamTests {
    private typealias Frame = HTTP2TestClient.Frame

    /// A server that a test plays frame by frame: it answers each frame of the client with the frames of `reply`.
    private static func with(
        _ reply: @escaping @Sendable (_ connection: Int, Frame) -> [Frame],
        configure: (inout ServiceDefinition) -> Void = { _ in },
        _ body: (HTTPTestDoor, _ connections: NIOLockedValueBox<Int>) async throws -> Void
    ) async throws {
        let connections = NIOLockedValueBox(0)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                let number = connections.withLockedValue { count in
                    count += 1
                    return count
                }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(PlayedServer { reply(number, $0) })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        var service = ServiceDefinition(
            name: "shop",
            upstream: UpstreamSettings(url: "http://127.0.0.1:\(listener.localAddress?.port ?? 0)", speaksHTTP2: true))
        configure(&service)
        do {
            try await HTTPTestDoor.with(services: [service]) { door in try await body(door, connections) }
        } catch {
            try await listener.close()
            throw error
        }
        try await listener.close()
    }

    private static func answer(_ stream: UInt32, _ status: String = "200") -> Frame {
        HTTP2TestClient.block([(":status", status)], stream: stream, ends: true)
    }

    @Test("calls share one connection, and more than the server takes at a time wait or have another")
    func shared() async throws {
        try await Self.with({ _, frame in frame.kind == .headers ? [Self.answer(frame.stream)] : [] }) { door, connections in
            for _ in 0..<5 { try await door.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 1)
        }
    }

    @Test("a server that says nothing any more is left, and the next call has a connection of its own")
    func silent() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.connectTimeout = .milliseconds(200)
            $0.upstream?.firstByteTimeout = .milliseconds(200)
        }
        let reply: @Sendable (Int, Frame) -> [Frame] = { number, frame in
            // The first connection goes dead behind its first answer.
            frame.kind == .headers && (number > 1 || frame.stream == 1) ? [Self.answer(frame.stream)] : []
        }
        try await Self.with(reply, configure: configure) { door, connections in
            try await door.expect(200, "GET", "/proxy/shop/a")
            try await door.expect(504, "GET", "/proxy/shop/a")
            let client = door.client
            try await eventually("a call is answered again") { try await client.send("GET", "/proxy/shop/a").status == 200 }
            #expect(connections.withLockedValue(\.self) == 2)
        }
    }

    @Test("a server that is none of HTTP/2 fails each call at once, by one connection for each")
    func otherProtocol() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.speaksHTTP2 = true
            $0.upstream?.retries.attempts = 0
            $0.upstream?.connectTimeout = .seconds(20)
        }
        try await ProxyTestDoor.with(
            configure: configure,
            upstream: { call in
                try await call.send("HTTP/1.1 400 Bad Request\r\n\r\n")
                throw TestUpstream.Close()
            }
        ) { proxy in
            for _ in 0..<3 { try await proxy.door.expect(502, "GET", "/proxy/shop/a") }
            #expect(proxy.upstream.connectionCount == 3)
        }
    }

    @Test("a server that says farewell finishes what it has, and is called on another connection")
    func farewell() async throws {
        let reply: @Sendable (Int, Frame) -> [Frame] = { number, frame in
            guard frame.kind == .headers else { return [] }
            let farewell = Frame(kind: .goAway, payload: ByteBuffer(bytes: [0, 0, 0, 1, 0, 0, 0, 0]))
            return number == 1 ? [farewell, Self.answer(frame.stream)] : [Self.answer(frame.stream)]
        }
        try await Self.with(reply) { door, connections in
            for _ in 0..<3 { try await door.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 2)
        }
    }

    @Test("a stream that the server refuses is tried again where the call may be, and fails where it may not")
    func refused() async throws {
        let refusals = NIOLockedValueBox(2)
        let reply: @Sendable (Int, Frame) -> [Frame] = { _, frame in
            guard frame.kind == .headers else { return [] }
            let isRefused = refusals.withLockedValue { left in
                left -= 1
                return left >= 0
            }
            return [isRefused ? HTTP2TestClient.reset(frame.stream, code: 7) : Self.answer(frame.stream)]
        }
        try await Self.with(reply) { door, _ in
            try await door.expect(502, "POST", "/proxy/shop/a")
            try await door.expect(200, "GET", "/proxy/shop/a")
        }
    }

    @Test("what is no HTTP/2 fails the call, and only it", arguments: [":status: 200", "", "malformed"])
    func broken(kind: String) async throws {
        let reply: @Sendable (Int, Frame) -> [Frame] = { number, frame in
            guard frame.kind == .headers else { return [] }
            guard number == 1 else { return [Self.answer(frame.stream)] }
            switch kind {
            case "": return [HTTP2TestClient.data("x", stream: frame.stream, ends: true)]
            case "malformed": return [HTTP2TestClient.block([(":status", "200"), ("X", "y")], stream: frame.stream, ends: true)]
            default: return [HTTP2TestClient.block([("status", "200")], stream: frame.stream, ends: true)]
            }
        }
        try await Self.with(reply, configure: { $0.upstream?.retries.attempts = 0 }) { door, _ in
            try await door.expect(502, "GET", "/proxy/shop/a")
            try await door.expect(200, "GET", "/proxy/shop/a")
        }
    }
}

/// Answers frames with frames, once the client's preface has come.
private final class PlayedServer: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let reply: (HTTP2TestClient.Frame) -> [HTTP2TestClient.Frame]
    private var unread = ByteBuffer()
    private var isBegun = false

    init(_ reply: @escaping (HTTP2TestClient.Frame) -> [HTTP2TestClient.Frame]) {
        self.reply = reply
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var more = unwrapInboundIn(data)
        unread.writeBuffer(&more)
        var answer = ByteBuffer()
        if !isBegun, unread.readableBytes >= HTTP2TestClient.preface.utf8.count {
            unread.moveReaderIndex(forwardBy: HTTP2TestClient.preface.utf8.count)
            isBegun = true
            HTTP2TestClient.Frame(kind: .settings).write(into: &answer)
        }
        while isBegun, let frame = HTTP2TestClient.takeFrame(&unread) {
            if frame.kind == .settings, frame.flags == 0 {
                HTTP2TestClient.Frame(kind: .settings, flags: 1).write(into: &answer)
            } else {
                for frame in reply(frame) { frame.write(into: &answer) }
            }
        }
        context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
    }
}

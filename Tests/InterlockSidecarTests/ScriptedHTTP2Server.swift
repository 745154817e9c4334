import NIOConcurrencyHelpers
import NIOCore
import NIOPosix

/// An HTTP/2 server that a test scripts frame by frame: a function maps each frame of a client to the frames sent back.
struct ScriptedHTTP2Server {
    typealias Reply = @Sendable (_ connection: Int, HTTP2TestClient.Frame) -> [HTTP2TestClient.Frame]

    let port: Int
    /// The number of connections accepted.
    let connections: NIOLockedValueBox<Int>

    static func with(_ reply: @escaping Reply, _ body: (ScriptedHTTP2Server) async throws -> Void) async throws {
        let connections = NIOLockedValueBox(0)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                let number = connections.withLockedValue { count in
                    count += 1
                    return count
                }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ScriptedConnection { reply(number, $0) })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            try await body(ScriptedHTTP2Server(port: listener.localAddress?.port ?? 0, connections: connections))
        } catch {
            try await listener.close()
            throw error
        }
        try await listener.close()
    }

    /// Returns a complete answer without a body.
    static func answer(_ stream: UInt32, _ status: String = "200") -> HTTP2TestClient.Frame {
        HTTP2TestClient.block([(":status", status)], stream: stream, ends: true)
    }
}

/// Answers frames with frames after the client's preface.
private final class ScriptedConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let reply: (HTTP2TestClient.Frame) -> [HTTP2TestClient.Frame]
    private var unread = ByteBuffer()
    private var hasPreface = false

    init(_ reply: @escaping (HTTP2TestClient.Frame) -> [HTTP2TestClient.Frame]) {
        self.reply = reply
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var more = unwrapInboundIn(data)
        unread.writeBuffer(&more)
        var output = ByteBuffer()
        if !hasPreface, unread.readableBytes >= HTTP2TestClient.preface.utf8.count {
            unread.moveReaderIndex(forwardBy: HTTP2TestClient.preface.utf8.count)
            hasPreface = true
            HTTP2TestClient.Frame(kind: .settings).write(into: &output)
        }
        while hasPreface, let frame = HTTP2TestClient.takeFrame(&unread) {
            if frame.kind == .settings, frame.flags == 0 {
                HTTP2TestClient.Frame(kind: .settings, flags: 1).write(into: &output)
            } else {
                for frame in reply(frame) { frame.write(into: &output) }
            }
        }
        context.writeAndFlush(wrapOutboundOut(output), promise: nil)
    }
}

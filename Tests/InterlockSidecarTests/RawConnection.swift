import InterlockProcesses
import NIOCore
import NIOPosix
import NIOSSL

/// Exchanges raw bytes with a listener, including bytes that no well-behaved client sends.
enum RawConnection {
    /// Connects to a listener. The connection fails with `DeadlineExceeded` if nothing arrives for 40 seconds.
    /// - Parameter tls: the TLS settings; `nil` for plain text.
    static func connect(
        to port: Int, tls: NIOSSLContext? = nil
    ) async throws -> NIOAsyncChannel<ByteBuffer, ByteBuffer> {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls {
                        try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: nil))
                    }
                    try channel.pipeline.syncOperations.addHandlers(
                        IdleStateHandler(readTimeout: TimeAmount(ReadTimeoutHandler.limit)), ReadTimeoutHandler())
                    return try NIOAsyncChannel(wrappingChannelSynchronously: channel)
                }
            }
    }

    private final class ReadTimeoutHandler: ChannelInboundHandler {
        typealias InboundIn = NIOAny

        static let limit = Duration.seconds(40)

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard event is IdleStateHandler.IdleStateEvent else { return context.fireUserInboundEventTriggered(event) }
            context.fireErrorCaught(DeadlineExceeded(expectation: "the other side sends data or closes", limit: Self.limit))
            context.close(promise: nil)
        }
    }

    /// Sends `bytes`, and reads until the other side closes or the text contains `until`.
    static func exchange(port: Int, _ bytes: String, until: String? = nil) async throws -> String {
        try await exchange(port: port, ByteBuffer(string: bytes)) { received in
            until.map { received.contains($0) } ?? false
        }
    }

    static func exchange(
        port: Int, _ bytes: ByteBuffer, until isEnough: @Sendable (String) -> Bool
    ) async throws -> String {
        let channel = try await connect(to: port)
        return try await channel.executeThenClose { inbound, outbound in
            // A full listener may already have closed the connection; the text that it sent counts.
            try? await outbound.write(bytes)
            var received = ""
            do {
                for try await part in inbound {
                    received += String(buffer: part)
                    if isEnough(received) { break }
                }
            } catch is IOError {
                // The listener closed the connection with bytes unread; the text received so far counts.
            }
            return received
        }
    }
}

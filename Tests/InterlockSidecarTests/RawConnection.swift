import InterlockProcesses
import NIOCore
import NIOPosix
import NIOSSL

/// Bytes to a door and back, for saying what no well-behaved client would.
enum RawConnection {
    /// Ends with `DeadlineExceeded` when the other side says nothing, and does not close, for 40 seconds.
    /// - Parameter tls: `nil`: in the clear.
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
                        IdleStateHandler(readTimeout: TimeAmount(Impatience.limit)), Impatience())
                    return try NIOAsyncChannel(wrappingChannelSynchronously: channel)
                }
            }
    }

    private final class Impatience: ChannelInboundHandler {
        typealias InboundIn = NIOAny

        static let limit = Duration.seconds(40)

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard event is IdleStateHandler.IdleStateEvent else { return context.fireUserInboundEventTriggered(event) }
            context.fireErrorCaught(DeadlineExceeded(expectation: "the other side says something, or closes", limit: Self.limit))
            context.close(promise: nil)
        }
    }

    /// Sends `bytes`, and reads until the other side closes or `enough` has come.
    static func exchange(port: Int, _ bytes: String, enough: String? = nil) async throws -> String {
        try await exchange(port: port, ByteBuffer(string: bytes)) { received in
            enough.map { received.contains($0) } ?? false
        }
    }

    static func exchange(
        port: Int, _ bytes: ByteBuffer, until isEnough: @Sendable (String) -> Bool
    ) async throws -> String {
        let channel = try await connect(to: port)
        return try await channel.executeThenClose { inbound, outbound in
            // A door that is full has closed before: what it said counts.
            try? await outbound.write(bytes)
            var received = ""
            do {
                for try await part in inbound {
                    received += String(buffer: part)
                    if isEnough(received) { break }
                }
            } catch is IOError {
                // Closed with bytes of ours unread: what came before counts.
            }
            return received
        }
    }
}

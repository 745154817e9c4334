internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix

/// A TCP forwarder on 127.0.0.1, like a service IP or a DNS name whose server changes: new connections go to the
/// current target, and existing ones keep theirs.
///
/// Forwards at most 256 concurrent connections, and closes any others.
package final class SwitchingForwarder: Sendable {
    private struct State {
        /// The port of the current target.
        var target: Int
        var openChannels: [ObjectIdentifier: any Channel] = [:]
        var listener: (any Channel)?
    }

    private static let connectionLimit = 256

    private let state: NIOLockedValueBox<State>

    private init(target: Int) {
        state = NIOLockedValueBox(State(target: target))
    }

    /// Runs `body` with a forwarder to the port `target`, and closes the forwarder afterwards.
    package static func withForwarder<Result>(
        to target: Int, _ body: (SwitchingForwarder) async throws -> Result
    ) async throws -> Result {
        let forwarder = SwitchingForwarder(target: target)
        try await forwarder.listen()
        return try await withCleanup {
            try await body(forwarder)
        } finally: {
            await forwarder.close()
        }
    }

    /// The port that clients connect to.
    package var port: Int { state.withLockedValue { $0.listener?.localAddress?.port ?? 0 } }

    /// Sends new connections to the port `target` from now on.
    package func redirect(to target: Int) {
        state.withLockedValue { $0.target = target }
    }

    private func listen() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { self.accept($0) }
            .bind(host: "127.0.0.1", port: 0).get()
        state.withLockedValue { $0.listener = channel }
    }

    /// Connects a client to the current target.
    private func accept(_ client: any Channel) -> EventLoopFuture<Void> {
        let target = state.withLockedValue { state -> Int? in
            guard state.openChannels.count < Self.connectionLimit else { return nil }
            state.openChannels[ObjectIdentifier(client)] = client
            return state.target
        }
        client.closeFuture.whenComplete { _ in
            self.state.withLockedValue { $0.openChannels[ObjectIdentifier(client)] = nil }
        }
        guard let target else { return client.eventLoop.makeFailedFuture(ChannelError.operationUnsupported) }
        return ClientBootstrap(group: client.eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { server in
                server.eventLoop.makeCompletedFuture { try server.pipeline.syncOperations.addHandler(Forwarder(to: client)) }
            }
            .connect(host: "127.0.0.1", port: target)
            .flatMapThrowing { server in try client.pipeline.syncOperations.addHandler(Forwarder(to: server)) }
    }

    private func close() async {
        let (listener, openChannels) = state.withLockedValue { ($0.listener, Array($0.openChannels.values)) }
        // Closing fails if the channel is already closed, which is harmless.
        try? await listener?.close()
        for channel in openChannels { try? await channel.close() }
    }
}

/// Forwards the bytes of one channel to the other, and closes the other when the first one closes. Both share an event
/// loop.
private final class Forwarder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) {
        self.other = other
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        other.close(promise: nil)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

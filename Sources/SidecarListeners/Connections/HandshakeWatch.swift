internal import NIOCore
internal import NIOSSL
internal import NIOTLS
internal import RedisClient

/// Reports a failed TLS handshake, and removes itself when the handshake completes. Does not report a client that
/// connects and sends nothing, such as the port check of a load balancer.
final class HandshakeWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var failures: RefusedClients?
    private var address: SocketAddress?

    init(_ failures: RefusedClients) {
        self.failures = failures
    }

    func handlerAdded(context: ChannelHandlerContext) { address = context.remoteAddress }

    func channelActive(context: ChannelHandlerContext) {
        address = context.remoteAddress
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        context.fireUserInboundEventTriggered(event)
        guard case TLSUserEvent.handshakeCompleted = event else { return }
        failures = nil
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let failures, Self.isFailure(error) { failures.record(from: address, error: "\(NetworkReason(error))") }
        failures = nil
        context.fireErrorCaught(error)
    }

    private static func isFailure(_ error: any Error) -> Bool {
        guard case NIOSSLError.handshakeFailed(let reason) = error else { return error is NIOSSLExtraError }
        return reason != .sslError([.eofDuringHandshake])
    }
}

internal import CoreMetrics
internal import Hiredis
internal import Logging
internal import NIOCore
internal import NIOSSL
internal import NIOTLS

/// Counts TLS handshakes that fail at one listener, and logs them once a minute at most.
package final class FailedHandshakes: Sendable {
    private let counter: Counter
    private let door: String
    private let logger: Logger
    private let lines = OnceAMinute()

    init(door: String, logger: Logger) {
        self.door = door
        self.logger = logger
        counter = Counter(label: "interlock_tls_handshake_failures_total", dimensions: [("door", door)])
    }

    fileprivate func failed(from address: SocketAddress?, _ error: any Error) {
        counter.increment()
        guard let times = lines.happened() else { return }
        logger.log(
            .handshakeFailed,
            ["door": door, "from": address?.ipAddress ?? "this host", "error": "\(NetworkReason(error))", "times": "\(times)"])
    }
}

/// Reports the failure of one handshake, and leaves when the handshake is done. A client that connects and says
/// nothing, as load balancers check ports, is no failure.
final class HandshakeWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private var failures: FailedHandshakes?
    private var address: SocketAddress?

    init(_ failures: FailedHandshakes) {
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
        if let failures, Self.isFailure(error) { failures.failed(from: address, error) }
        failures = nil
        context.fireErrorCaught(error)
    }

    private static func isFailure(_ error: any Error) -> Bool {
        guard case NIOSSLError.handshakeFailed(let reason) = error else { return error is NIOSSLExtraError }
        return reason != .sslError([.eofDuringHandshake])
    }
}

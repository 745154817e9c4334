internal import InterlockHTTP
internal import NIOCore
internal import SidecarListeners

/// A client and an upstream that speak a protocol of their own with each other (RFC 9110, section 7.8): what comes at one end leaves at
/// the other as it is, no faster than that end takes it. With one end the other closes. Confined to its event loop.
final class Tunnel {
    private let eventLoop: any EventLoop
    private let idleTimeout: TimeAmount
    private var ends: (End, End)?
    private var alarm: LazyAlarm?

    private init(on eventLoop: any EventLoop, idleTimeout: TimeAmount) {
        self.eventLoop = eventLoop
        self.idleTimeout = idleTimeout
    }

    /// - Parameters:
    ///   - idleTimeout: ends the tunnel after this long without a byte from either side; peers that want to stay send a
    ///     Ping (RFC 6455, section 5.5.2).
    ///   - takeClient: installs the given handler on the client's connection.
    static func between(
        _ upstream: HTTPClientConnection, on eventLoop: any EventLoop, idleTimeout: TimeAmount,
        _ takeClient: (any ChannelHandler) throws -> Void
    ) throws {
        let tunnel = Tunnel(on: eventLoop, idleTimeout: idleTimeout)
        let (near, far) = (End(tunnel), End(tunnel))
        near.other = far
        far.other = near
        tunnel.ends = (near, far)
        let alarm = LazyAlarm(on: eventLoop) { tunnel.close() }
        tunnel.alarm = alarm
        tunnel.stir()
        do {
            let early = try upstream.handOver(to: far)
            eventLoop.assumeIsolated().execute { far.mayWrite = true }
            try takeClient(near)
            near.mayWrite = true
            near.write(early)
            near.flush()
            // What either side has said in this tick is handed on at its end.
            eventLoop.assumeIsolated().execute {
                near.flush()
                far.flush()
            }
        } catch {
            tunnel.close()
            throw error
        }
    }

    private func stir() { alarm?.set(eventLoop.now + idleTimeout) }

    private func close() {
        alarm?.cancel()
        alarm = nil
        let ends = ends
        self.ends = nil
        ends?.0.close()
        ends?.1.close()
    }

    private final class End: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        /// For so long what was written before may still be on its way.
        private static let linger = TimeAmount.seconds(5)

        private let tunnel: Tunnel
        fileprivate var other: End?
        private var context: ChannelHandlerContext?
        private var isReadAsked = false
        fileprivate var mayWrite = false

        init(_ tunnel: Tunnel) {
            self.tunnel = tunnel
        }

        /// What was written before is still sent.
        fileprivate func close() {
            other = nil
            guard let context else { return }
            self.context = nil
            guard mayWrite else { return context.close(promise: nil) }
            let forced = context.eventLoop.assumeIsolated().scheduleTask(in: Self.linger) { context.close(promise: nil) }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
                forced.cancel()
                context.close(promise: nil)
            }
        }

        private var isWritable: Bool { context?.channel.isWritable ?? false }

        func handlerAdded(context: ChannelHandlerContext) { self.context = context }

        func handlerRemoved(context: ChannelHandlerContext) { tunnel.close() }

        func read(context: ChannelHandlerContext) {
            if other?.isWritable ?? true { context.read() } else { isReadAsked = true }
        }

        private func readOn() {
            guard isReadAsked else { return }
            isReadAsked = false
            context?.read()
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            other?.write(unwrapInboundIn(data))
        }

        /// What is written leaves with the next flush.
        fileprivate func write(_ bytes: ByteBuffer) { context?.write(wrapOutboundOut(bytes), promise: nil) }

        func channelReadComplete(context: ChannelHandlerContext) {
            tunnel.stir()
            other?.flush()
        }

        fileprivate func flush() { context?.flush() }

        func channelWritabilityChanged(context: ChannelHandlerContext) {
            if context.channel.isWritable { other?.readOn() }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed = event { return tunnel.close() }
            context.fireUserInboundEventTriggered(event)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { tunnel.close() }

        func channelInactive(context: ChannelHandlerContext) {
            tunnel.close()
            context.fireChannelInactive()
        }
    }
}

internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import SidecarListeners

/// A tunnel between a client and an upstream that have switched protocols (RFC 9110, section 7.8). Executes the actions
/// of `TunnelStateMachine`. Confined to its event loop.
final class Tunnel {
    private let eventLoop: any EventLoop
    private var machine: TunnelStateMachine
    /// Both ends; `nil` once the tunnel is closed.
    private var ends: (client: End, upstream: End)?
    private var timer: LazyTimer?

    private init(on eventLoop: any EventLoop, idleTimeoutMilliseconds: Int64) {
        self.eventLoop = eventLoop
        machine = TunnelStateMachine(
            idleTimeoutMilliseconds: idleTimeoutMilliseconds, now: Instant(nanoseconds: eventLoop.uptimeNanoseconds))
    }

    /// Connects a client with an upstream.
    /// - Parameters:
    ///   - idleTimeoutMilliseconds: the time without a byte from either side after which the tunnel closes. Peers keep
    ///     the tunnel open with a Ping (RFC 6455, section 5.5.2).
    ///   - attachClient: a closure that installs the given handler on the client's connection.
    static func connect(
        _ upstream: HTTPClientConnection, on eventLoop: any EventLoop, idleTimeoutMilliseconds: Int64,
        _ attachClient: (any ChannelHandler) throws -> Void
    ) throws {
        let tunnel = Tunnel(on: eventLoop, idleTimeoutMilliseconds: idleTimeoutMilliseconds)
        let (clientEnd, upstreamEnd) = (End(.client, of: tunnel), End(.upstream, of: tunnel))
        tunnel.ends = (clientEnd, upstreamEnd)
        tunnel.timer = LazyTimer(on: eventLoop) { tunnel.perform(tunnel.machine.timerFired(now: tunnel.now)) }
        tunnel.setTimer()
        do {
            let earlyBytes = try upstream.handOver(to: upstreamEnd)
            eventLoop.assumeIsolated().execute { upstreamEnd.output = .open }
            try attachClient(clientEnd)
            clientEnd.output = .open
            clientEnd.write(earlyBytes)
            clientEnd.flush()
            // Bytes that either side has sent in this tick are flushed at its end.
            eventLoop.assumeIsolated().execute {
                clientEnd.flush()
                upstreamEnd.flush()
            }
        } catch {
            tunnel.end()
            throw error
        }
    }

    private var now: Instant { Instant(nanoseconds: eventLoop.uptimeNanoseconds) }

    private subscript(side: TunnelStateMachine.Side) -> End? { side == .client ? ends?.client : ends?.upstream }

    private func perform(_ action: TunnelStateMachine.Action) {
        switch action {
        case .none: break
        case .read(let side): self[side]?.read()
        case .setTimer: setTimer()
        case .close: close()
        }
    }

    private func setTimer() { timer?.set(.uptimeNanoseconds(UInt64(max(0, machine.timerDeadline.nanoseconds)))) }

    private func close() {
        timer?.cancel()
        timer = nil
        let ends = ends
        self.ends = nil
        ends?.client.close()
        ends?.upstream.close()
    }

    // MARK: Events

    /// Returns whether to read from a side now. If not, the read follows once the other side accepts bytes.
    private func mayRead(_ side: TunnelStateMachine.Side) -> Bool {
        machine.readRequested(side, isOtherWritable: self[side.other]?.isWritable ?? true) == .read(side)
    }

    private func becameWritable(_ side: TunnelStateMachine.Side) { perform(machine.becameWritable(side)) }

    private func forward(_ bytes: ByteBuffer, from side: TunnelStateMachine.Side) { self[side.other]?.write(bytes) }

    private func readComplete(from side: TunnelStateMachine.Side) {
        machine.bytesReceived(now: now)
        setTimer()
        self[side.other]?.flush()
    }

    private func end() { perform(machine.end()) }

    /// The handler of one side's connection.
    private final class End: ChannelDuplexHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        /// Whether bytes can be written.
        enum Output {
            /// The handler is not yet installed on the connection.
            case pending
            case open
        }

        /// The maximum time that a closing connection waits for its bytes to be sent.
        private static let linger = TimeAmount.seconds(5)

        private let side: TunnelStateMachine.Side
        private let tunnel: Tunnel
        private var context: ChannelHandlerContext?
        fileprivate var output = Output.pending

        init(_ side: TunnelStateMachine.Side, of tunnel: Tunnel) {
            self.side = side
            self.tunnel = tunnel
        }

        fileprivate var isWritable: Bool { context?.channel.isWritable ?? false }

        /// Writes the bytes, which are sent with the next flush.
        fileprivate func write(_ bytes: ByteBuffer) { context?.write(wrapOutboundOut(bytes), promise: nil) }

        fileprivate func flush() { context?.flush() }

        fileprivate func read() { context?.read() }

        /// Closes the connection once the bytes that were written are sent.
        fileprivate func close() {
            guard let context else { return }
            self.context = nil
            guard output == .open else { return context.close(promise: nil) }
            let forcedClose = context.eventLoop.assumeIsolated().scheduleTask(in: Self.linger) {
                context.close(promise: nil)
            }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer())).assumeIsolated().whenComplete { _ in
                forcedClose.cancel()
                context.close(promise: nil)
            }
        }

        func handlerAdded(context: ChannelHandlerContext) { self.context = context }

        func handlerRemoved(context: ChannelHandlerContext) { tunnel.end() }

        func read(context: ChannelHandlerContext) {
            if tunnel.mayRead(side) { context.read() }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            tunnel.forward(unwrapInboundIn(data), from: side)
        }

        func channelReadComplete(context: ChannelHandlerContext) { tunnel.readComplete(from: side) }

        func channelWritabilityChanged(context: ChannelHandlerContext) {
            if context.channel.isWritable { tunnel.becameWritable(side) }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed = event { return tunnel.end() }
            context.fireUserInboundEventTriggered(event)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { tunnel.end() }

        func channelInactive(context: ChannelHandlerContext) {
            tunnel.end()
            context.fireChannelInactive()
        }
    }
}

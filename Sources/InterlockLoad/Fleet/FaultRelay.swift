internal import InterlockCore
internal import Glibc
internal import NIOCore

/// One connection of a sidecar, and the connection to Redis that continues it. Confined to their event loop.
final class FaultRelay {
    enum End {
        case sidecar, redis
    }

    private let sidecar: any Channel
    private var redis: (any Channel)?
    /// The stream from the sidecar to Redis.
    private let requests: FaultStream
    /// The stream from Redis to the sidecar; `nil` before there is a connection to Redis.
    private var replies: FaultStream?
    private var mode: FaultProxy.Mode
    private var random: SeededRandom
    private var isConnecting = false
    private var isClosed = false
    /// Called once, when both connections are closed.
    private let onClose: () -> Void

    init(sidecar: any Channel, mode: FaultProxy.Mode, random: SeededRandom, onClose: @escaping () -> Void) {
        self.sidecar = sidecar
        self.mode = mode
        self.random = random
        self.onClose = onClose
        requests = FaultStream(from: sidecar, pipe: FaultPipe(flow: mode.requests, random: self.random.split()))
        requests.onFinish = { [weak self] in self?.closeIfFinished() }
    }

    /// Whether to connect to Redis now. The relay does not connect while one of its directions is blocked.
    var wantsRedis: Bool {
        redis == nil && !isConnecting && !isClosed && mode.requests != .blocked && mode.replies != .blocked
    }

    /// Records that the attempt to connect to Redis has begun.
    func redisConnectBegan() {
        isConnecting = true
    }

    /// Handles the result of the attempt to connect to Redis.
    func redisConnectEnded(_ result: Result<any Channel, any Error>) {
        isConnecting = false
        guard case .success(let channel) = result else { return close() }
        redis = channel
        guard !isClosed, sidecar.isActive else {
            channel.close(promise: nil)
            return close()
        }
        let replies = FaultStream(from: channel, pipe: FaultPipe(flow: mode.replies, random: random.split()))
        replies.onFinish = { [weak self] in self?.closeIfFinished() }
        self.replies = replies
        replies.connect(to: sidecar)
        requests.connect(to: channel)
    }

    func change(to mode: FaultProxy.Mode) {
        self.mode = mode
        requests.change(to: mode.requests)
        replies?.change(to: mode.replies)
    }

    func received(_ bytes: ByteBuffer, from end: End) {
        stream(from: end)?.received(bytes)
    }

    func readComplete(from end: End) {
        stream(from: end)?.readIfWanted()
    }

    /// Handles a half-close: `end` has stopped sending, but may still receive.
    func inputClosed(at end: End) {
        guard redis != nil || isConnecting else { return close() }
        stream(from: end)?.sourceEnded()
    }

    /// Handles the close of a connection. Still forwards the bytes that `end` sent before.
    func connectionClosed(at end: End) {
        inputClosed(at: end)
        stream(toward: end)?.abort()
    }

    func writabilityChanged(toward end: End) {
        stream(toward: end)?.run()
    }

    func `break`(_ manner: ConnectionBreak) {
        switch manner {
        case .reset: reset()
        case .endTowardSidecar: replies?.closeSink()
        case .endTowardRedis: requests.closeSink()
        }
    }

    /// Resets both connections.
    func reset() {
        for channel in [sidecar, redis].compactMap({ $0 }) {
            // A zero linger time makes closing send RST: `man 7 socket`.
            _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
        }
        close()
    }

    func close() {
        guard !isClosed else { return }
        isClosed = true
        requests.abort()
        replies?.abort()
        sidecar.close(promise: nil)
        redis?.close(promise: nil)
        onClose()
    }

    private func closeIfFinished() {
        guard requests.isFinished, replies?.isFinished ?? false else { return }
        close()
    }

    private func stream(from end: End) -> FaultStream? {
        switch end {
        case .sidecar: requests
        case .redis: replies
        }
    }

    private func stream(toward end: End) -> FaultStream? {
        switch end {
        case .sidecar: replies
        case .redis: requests
        }
    }
}

/// Reports the events at one end to a `FaultRelay`.
final class FaultRelayHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let relay: FaultRelay
    private let end: FaultRelay.End

    init(_ relay: FaultRelay, _ end: FaultRelay.End) {
        self.relay = relay
        self.end = end
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        relay.received(unwrapInboundIn(data), from: end)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        relay.readComplete(from: end)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        relay.writabilityChanged(toward: end)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { relay.inputClosed(at: end) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        relay.connectionClosed(at: end)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

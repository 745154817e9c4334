internal import NIOCore

/// Tells a `FaultRelay` what happens at one of its ends.
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
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { relay.ended(end) }
        context.fireUserInboundEventTriggered(event)
    }

    func channelInactive(context: ChannelHandlerContext) {
        relay.inactive(end)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

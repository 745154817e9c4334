internal import NIOCore

/// Lets a listener rest when it could not accept a connection: without file descriptors it would do nothing but try. Whoever
/// connects meanwhile waits.
///
/// NIO's own `AcceptBackoffHandler` holds back the next read, and the one that failed stays under way.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    private static let length = TimeAmount.seconds(1)

    private var resumption: Scheduled<Void>?

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is IOError else { return context.fireErrorCaught(error) }
        let channel = context.channel
        guard let options = channel.syncOptions else { return }
        // What ends a read that is under way is the change from reading by itself to not.
        try? options.setOption(.autoRead, value: true)
        try? options.setOption(.autoRead, value: false)
        guard resumption == nil else { return }
        resumption = channel.eventLoop.assumeIsolated().scheduleTask(in: Self.length) { [self] in
            resumption = nil
            try? options.setOption(.autoRead, value: true)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        resumption?.cancel()
        context.fireChannelInactive()
    }
}

internal import NIOCore

/// Reads nothing from a client that does not read, for its calls' answers would pile up, and after a while ends its connection; nor from one
/// that is to pause. It stands between the bytes and the frames.
final class UnreadAnswerGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private let patience: TimeAmount
    private var isReadAsked = false
    /// Nothing is read for now.
    var isPaused: Bool { pauseEnd != nil }
    private var pauseEnd: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    private var end: Scheduled<Void>?

    /// - Parameter patience: for so long a client may read nothing.
    init(patience: TimeAmount) {
        self.patience = patience
    }

    /// Reads nothing for so long.
    func pause(_ time: TimeAmount) {
        guard let context, !isPaused else { return }
        pauseEnd = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in resume() }
    }

    /// Ends a pause.
    func resume() {
        pauseEnd?.cancel()
        pauseEnd = nil
        if let context { readIfAsked(context) }
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func read(context: ChannelHandlerContext) {
        isReadAsked = true
        readIfAsked(context)
    }

    private func readIfAsked(_ context: ChannelHandlerContext) {
        guard isReadAsked, !isPaused, context.channel.isWritable else { return }
        isReadAsked = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        end?.cancel()
        end = nil
        if !context.channel.isWritable {
            end = context.eventLoop.assumeIsolated().scheduleTask(in: patience) { context.close(promise: nil) }
        } else {
            readIfAsked(context)
        }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        end?.cancel()
        end = nil
        pauseEnd?.cancel()
        pauseEnd = nil
        self.context = nil
        context.fireChannelInactive()
    }
}

internal import NIOCore

/// Stops reading from a client that does not read its answers, which would pile up, and closes its connection after a
/// while. Also stops reading from a paused client. Sits between the bytes and the frames.
final class UnreadAnswerGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private let patience: TimeAmount
    private var isReadAsked = false
    /// Whether reading is paused.
    var isPaused: Bool { pauseEnd != nil }
    private var pauseEnd: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    private var end: Scheduled<Void>?

    /// - Parameter patience: the time for which a client may leave answers unread.
    init(patience: TimeAmount) {
        self.patience = patience
    }

    /// Pauses reading for this time.
    func pause(_ time: TimeAmount) {
        guard let context, !isPaused else { return }
        pauseEnd = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in resume() }
    }

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

internal import NIOCore

/// Stops reading from a client while it does not read its responses, which would pile up, and closes its connection
/// after a while. Also stops reading during a pause. Comes before the frame parser in the pipeline.
final class UnreadResponseGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer

    private let unreadTimeout: TimeAmount
    private var isReadRequested = false
    /// Whether reading is paused.
    var isPaused: Bool { pauseTimer != nil }
    private var pauseTimer: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    private var closeTimer: Scheduled<Void>?

    /// Creates a gate.
    /// - Parameter unreadTimeout: the time for which a client may leave responses unread.
    init(unreadTimeout: TimeAmount) {
        self.unreadTimeout = unreadTimeout
    }

    /// Pauses reading for this time, unless it is already paused.
    func pause(_ time: TimeAmount) {
        guard let context, !isPaused else { return }
        pauseTimer = context.eventLoop.assumeIsolated().scheduleTask(in: time) { [self] in resume() }
    }

    /// Ends the pause.
    func resume() {
        pauseTimer?.cancel()
        pauseTimer = nil
        if let context { readIfRequested(context) }
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func read(context: ChannelHandlerContext) {
        isReadRequested = true
        readIfRequested(context)
    }

    private func readIfRequested(_ context: ChannelHandlerContext) {
        guard isReadRequested, !isPaused, context.channel.isWritable else { return }
        isReadRequested = false
        context.read()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        closeTimer?.cancel()
        closeTimer = nil
        if !context.channel.isWritable {
            closeTimer = context.eventLoop.assumeIsolated().scheduleTask(in: unreadTimeout) { context.close(promise: nil) }
        } else {
            readIfRequested(context)
        }
        context.fireChannelWritabilityChanged()
    }

    func channelInactive(context: ChannelHandlerContext) {
        closeTimer?.cancel()
        closeTimer = nil
        pauseTimer?.cancel()
        pauseTimer = nil
        self.context = nil
        context.fireChannelInactive()
    }
}

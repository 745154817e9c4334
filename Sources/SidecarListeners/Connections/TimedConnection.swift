internal import NIOCore

/// A handler that serves one client until its channel ends, with a deadline for the first request. Confined to its
/// event loop.
protocol TimedConnection: ChannelInboundHandler {
    /// The context of the open connection; `nil` before it begins and after it has ended.
    var context: ChannelHandlerContext? { get set }
    /// The timer that calls `deadlineReached`; `nil` before the connection begins and after it has ended.
    var timer: LazyTimer? { get set }
    /// The time by which the client must have completed the TLS handshake and sent its first request.
    var firstRequestDeadline: NIODeadline { get }

    /// Called when the timer's deadline has passed.
    func deadlineReached()
    /// Called once, when the connection has ended.
    func connectionEnded()
}

extension TimedConnection {
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let timer = LazyTimer(on: context.eventLoop) { [self] in deadlineReached() }
        self.timer = timer
        timer.set(firstRequestDeadline)
    }

    func handlerRemoved(context: ChannelHandlerContext) { end() }

    func channelInactive(context: ChannelHandlerContext) {
        end()
        context.fireChannelInactive()
    }

    /// Ends the connection's service once, and calls `connectionEnded`.
    func end() {
        guard context != nil else { return }
        context = nil
        timer?.cancel()
        timer = nil
        connectionEnded()
    }

    /// Closes the connection of an unauthenticated client to free capacity.
    func evict() { context?.channel.closeImmediately() }
}

internal import NIOCore
internal import NIOHTTP2

/// What both doors' connections of HTTP/2 (RFC 9113) hold their clients to.
enum HTTP2Peer {
    /// Callers give calls up, hundreds at once where a service is slow.
    static let mostResets = 1000
    /// For so long the last of what was written may be on its way.
    private static let linger = TimeAmount.seconds(1)

    /// Says that no stream is served beyond those up to `last`.
    static func sayFarewell(on context: ChannelHandlerContext, last: HTTP2StreamID, _ written: EventLoopPromise<Void>? = nil) {
        let farewell = HTTP2Frame.FramePayload.goAway(lastStreamID: last, errorCode: .noError, opaqueData: nil)
        context.writeAndFlush(NIOAny(HTTP2Frame(streamID: .rootStream, payload: farewell)), promise: written)
    }

    /// Closes when all is written, a little later: with bytes of the client unread, it would not get to read the last of it.
    static func endGently(_ context: ChannelHandlerContext, last: HTTP2StreamID) {
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in
            context.eventLoop.assumeIsolated().scheduleTask(in: linger) { context.close(promise: nil) }
        }
        sayFarewell(on: context, last: last, written)
    }
}

/// Whether a connection has told its other side that it cannot go on: NIO's errors do not say whether they concern the connection or
/// one of its streams. Confined to the connection's event loop.
final class HTTP2Breakage: NIOHTTP2FrameDelegate {
    private var hasHappened = false

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .goAway(_, let code, _) = frame.payload, code != .noError { hasHappened = true }
    }

    /// Whether the connection ends with this error.
    func isMeant(by error: any Error) -> Bool {
        hasHappened || !(error is any NIOHTTP2Error || error is NIOHTTP2Errors.StreamError)
    }
}

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

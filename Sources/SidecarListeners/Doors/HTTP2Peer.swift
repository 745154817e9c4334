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

internal import NIOCore
internal import NIOHTTP2

/// Limits and closing rules for the HTTP/2 connections (RFC 9113) of the HTTP and gRPC APIs.
enum HTTP2Peer {
    /// The maximum number of stream resets in ten seconds. Callers of a slow service may cancel hundreds of calls
    /// together.
    static let maximumResets = 1000
    /// The time that the last writes have to reach the client.
    private static let linger = TimeAmount.seconds(1)

    /// Announces that no stream after this one is served.
    static func sendGoAway(
        on context: ChannelHandlerContext, last lastStreamID: HTTP2StreamID, _ written: EventLoopPromise<Void>? = nil
    ) {
        let goAway = HTTP2Frame.FramePayload.goAway(lastStreamID: lastStreamID, errorCode: .noError, opaqueData: nil)
        context.writeAndFlush(NIOAny(HTTP2Frame(streamID: .rootStream, payload: goAway)), promise: written)
    }

    /// Sends a GOAWAY, and closes the connection shortly after everything is written. Closing it immediately with
    /// unread input could destroy the last writes.
    static func closeAfterFlush(_ context: ChannelHandlerContext, last lastStreamID: HTTP2StreamID) {
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in
            context.eventLoop.assumeIsolated().scheduleTask(in: linger) { context.close(promise: nil) }
        }
        sendGoAway(on: context, last: lastStreamID, written)
    }
}

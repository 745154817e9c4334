internal import NIOHTTP2

/// Detects the failure of an HTTP/2 connection. NIO's errors do not show whether they concern the connection or one of
/// its streams, but only a failed connection has sent a GOAWAY with an error. Confined to the connection's event loop.
final class HTTP2FailureDetector: NIOHTTP2FrameDelegate {
    private var hasFailed = false

    func wroteFrame(_ frame: HTTP2Frame) {
        if case .goAway(_, let code, _) = frame.payload, code != .noError { hasFailed = true }
    }

    /// Returns whether this error ends the connection, and not only a stream.
    func isConnectionEnded(by error: any Error) -> Bool {
        hasFailed || !(error is any NIOHTTP2Error || error is NIOHTTP2Errors.StreamError)
    }
}

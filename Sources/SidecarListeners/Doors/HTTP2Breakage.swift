internal import NIOHTTP2

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

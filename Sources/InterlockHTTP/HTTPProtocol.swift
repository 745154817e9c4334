internal import NIOCore
package import NIOHTTP2

/// What both sides of a connection agree on.
package enum HTTPProtocol {
    /// As TLS says it (RFC 9113, section 3.2).
    package static let http2 = "h2"

    /// The first is preferred.
    package static func offered(withHTTP2 speaksHTTP2: Bool) -> [String] {
        speaksHTTP2 ? [http2, "http/1.1"] : ["http/1.1"]
    }

    /// What of a stream's body may be on its way before it is read: of each stream, since the streams of one connection must not wait for
    /// each other.
    private static let window = 64 * 1024

    /// - Parameter settings: what is told the other side besides the windows.
    package static func connection(_ settings: HTTP2Settings) -> NIOHTTP2Handler.ConnectionConfiguration {
        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
        configuration.initialSettings = settings
        configuration.targetWindowSize = 16 * window
        // gRPC's clients measure a path with one PING in each round trip: on this host, some thousand a second.
        configuration.controlFrameRateLimit.maximumCount = 10_000
        configuration.controlFrameRateLimit.windowLength = .seconds(1)
        // What is still on its way on a stream that was reset does no harm: there may be as many of them as streams, and more.
        configuration.maximumRecentlyResetStreams = 4096
        return configuration
    }

    /// - Parameter mostResets: within ten seconds; whoever opens streams only to reset them goes on and on.
    package static func streams(mostResets: Int) -> NIOHTTP2Handler.StreamConfiguration {
        var configuration = NIOHTTP2Handler.StreamConfiguration()
        configuration.targetWindowSize = window
        configuration.outboundBufferSizeHighWatermark = window
        configuration.outboundBufferSizeLowWatermark = window / 2
        configuration.streamResetFrameRateLimit.maximumCount = mostResets
        configuration.streamResetFrameRateLimit.windowLength = .seconds(10)
        return configuration
    }
}

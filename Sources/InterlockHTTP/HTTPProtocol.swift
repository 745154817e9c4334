internal import NIOCore
package import NIOHTTP2

/// The protocol names and HTTP/2 settings of clients and servers.
package enum HTTPProtocol {
    /// The name of HTTP/2 in TLS (RFC 9113, section 3.2).
    package static let http2 = "h2"

    /// Returns the protocols to offer in TLS, in the order of preference.
    package static func offered(withHTTP2 speaksHTTP2: Bool) -> [String] {
        speaksHTTP2 ? [http2, "http/1.1"] : ["http/1.1"]
    }

    /// The maximum number of unread bytes of a stream's body in transit. Each stream has its own window, because the
    /// streams of a connection must not wait for each other.
    private static let window = 64 * 1024

    /// Returns the configuration of an HTTP/2 connection.
    /// - Parameter settings: the settings to send to the peer in addition to the windows.
    package static func connection(_ settings: HTTP2Settings) -> NIOHTTP2Handler.ConnectionConfiguration {
        var configuration = NIOHTTP2Handler.ConnectionConfiguration()
        configuration.initialSettings = settings
        configuration.targetWindowSize = 16 * window
        // gRPC clients measure a path with one PING per round trip: about a thousand a second on the same host.
        configuration.controlFrameRateLimit.maximumCount = 10_000
        configuration.controlFrameRateLimit.windowLength = .seconds(1)
        // Frames in transit on a stream that was reset are harmless. There may be more such streams than open ones.
        configuration.maximumRecentlyResetStreams = 4096
        return configuration
    }

    /// Returns the configuration of a connection's streams.
    /// - Parameter maximumResets: the maximum number of resets within ten seconds, which limits attackers that open
    ///   streams only to reset them.
    package static func streams(maximumResets: Int) -> NIOHTTP2Handler.StreamConfiguration {
        var configuration = NIOHTTP2Handler.StreamConfiguration()
        configuration.targetWindowSize = window
        configuration.outboundBufferSizeHighWatermark = window
        configuration.outboundBufferSizeLowWatermark = window / 2
        configuration.streamResetFrameRateLimit.maximumCount = maximumResets
        configuration.streamResetFrameRateLimit.windowLength = .seconds(10)
        return configuration
    }
}

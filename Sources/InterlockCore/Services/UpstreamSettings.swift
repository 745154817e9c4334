/// The address of a service's upstream, and the guarded proxy's settings for calls to it.
package struct UpstreamSettings: Hashable, Sendable {
    /// The base URL to which the proxy appends the request's path: `http://` or `https://`, a host, and optionally a
    /// path. Calls cannot escape that path.
    package var url: String
    /// The maximum time to establish a connection.
    package var connectTimeout: Duration
    /// The maximum time from sending the request to the first byte of the response.
    package var firstByteTimeout: Duration
    /// The maximum time for which the body of a request or response may be idle.
    package var idleTimeout: Duration
    /// The maximum time for the whole call, including waits, retries and both bodies; `nil` for no limit.
    package var totalTimeout: Duration?
    package var connections: ConnectionSettings
    package var retries: RetrySettings
    /// The response that replaces a refusal when the service cannot be called; `nil` to send the refusal.
    package var fallback: FallbackSettings?
    /// A PEM file of trusted CA certificates; `nil` for the system's.
    package var certificateAuthority: String?
    /// A digest of the contents of that file. When it changes, the proxy establishes new connections. It is not part of
    /// the definition's digest.
    package var certificateAuthorityDigest: [UInt8]?
    /// Whether the proxy calls the service with HTTP/2: negotiated over TLS, and with prior knowledge otherwise.
    package var speaksHTTP2 = false

    package init(
        url: String, connectTimeout: Duration = .seconds(2), firstByteTimeout: Duration = .seconds(15),
        idleTimeout: Duration = .seconds(300), totalTimeout: Duration? = .seconds(60),
        connections: ConnectionSettings = ConnectionSettings(), retries: RetrySettings = RetrySettings(),
        fallback: FallbackSettings? = nil
    ) {
        self.url = url
        self.connectTimeout = connectTimeout
        self.firstByteTimeout = firstByteTimeout
        self.idleTimeout = idleTimeout
        self.totalTimeout = totalTimeout
        self.connections = connections
        self.retries = retries
        self.fallback = fallback
    }
}

extension UpstreamSettings: DigestedSetting {
    /// All settings except `certificateAuthorityDigest`, which describes a file on this host.
    package var digestedParts: Parts {
        [
            ("url", url), ("connectTimeout", connectTimeout), ("firstByteTimeout", firstByteTimeout),
            ("idleTimeout", idleTimeout),
            // The first version required a total timeout, so it is written like a duration that is not optional.
            ("totalTimeout", totalTimeout.map { "\($0)" } ?? "nil"), ("connections", connections), ("retries", retries),
            ("fallback", fallback), ("certificateAuthority", certificateAuthority), ("speaksHTTP2", speaksHTTP2),
        ]
    }
}

/// The lifetimes of connections to a service.
package struct ConnectionSettings: Hashable, Sendable {
    /// The lifetime of an unused connection. It should be shorter than the server's own idle timeout, because a request
    /// on a closing connection is lost.
    package var idle: Duration
    /// The age after which a connection carries no further requests, so that changes in DNS take effect; `nil` for no
    /// limit.
    package var maximumAge: Duration?

    package init(idle: Duration = .seconds(4), maximumAge: Duration? = .seconds(300)) {
        self.idle = idle
        self.maximumAge = maximumAge
    }
}

extension ConnectionSettings: DigestedSetting {
    package var digestedParts: Parts { [("idle", idle), ("maximumAge", maximumAge)] }
}

/// The response when a call is refused (the breaker is open, a limit is reached or the service is busy) or fails.
package enum FallbackSettings: Hashable, Sendable {
    /// A fixed response.
    case fixed(status: Int, body: String, mediaType: String)
    /// The last successful response to the same `GET`, not older than `maximumAge`.
    case lastGood(maximumAge: Duration)
}

extension FallbackSettings: DigestedSetting {
    package var digestedParts: Parts {
        switch self {
        case .fixed(let status, let body, let mediaType):
            [("fixed.status", status), ("fixed.body", body), ("fixed.mediaType", mediaType)]
        case .lastGood(let maximumAge): [("lastGood.maximumAge", maximumAge)]
        }
    }
}

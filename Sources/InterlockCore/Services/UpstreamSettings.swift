/// Where a service lives, and how the guarded proxy calls it.
package struct UpstreamSettings: Hashable, Sendable {
    /// What the proxy's path is appended to: `http://` or `https://`, a host, and perhaps a path. No call leaves it.
    package var url: String
    /// For how long a connection may take to stand.
    package var connectTimeout: Duration
    /// From when the request was sent to the first byte of the answer.
    package var firstByteTimeout: Duration
    /// How long a request's body or an answer may be idle.
    package var idleTimeout: Duration
    /// The limit for the whole call, its waits, retries and both bodies included; `nil` for none.
    package var totalTimeout: Duration?
    package var connections: ConnectionSettings
    package var retries: RetrySettings
    /// What is answered instead when the service cannot be called; `nil`: the refusal.
    package var fallback: FallbackSettings?
    /// A file of certificates (PEM) that the service's may be signed by; `nil`: the system's.
    package var certificateAuthority: String?
    /// A digest of that file as it was read: with another one its connections are made anew. No part of the fleet's
    /// digest.
    package var certificateAuthorityDigest: [UInt8]?
    /// It is called with HTTP/2: over TLS where it agrees, and else in any case.
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

/// How long connections to a service are kept.
package struct ConnectionSettings: Hashable, Sendable {
    /// The time after which an unused connection is closed. Choose it shorter than most servers' own, because a request
    /// on a closing connection is lost.
    package var idle: Duration
    /// The age after which a connection carries no further request, so that changes in DNS take effect; `nil` for no
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

/// What is answered when the service cannot be called: open, limited, busy, or the call itself failed.
package enum FallbackSettings: Hashable, Sendable {
    /// Always the same answer.
    case fixed(status: Int, body: String, mediaType: String)
    /// The last good answer to the same `GET`, not older than this.
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

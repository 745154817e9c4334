internal import NIOSSL
package import RedisClient

/// How a client reaches its sidecar, and how long it waits for it.
public struct SidecarClientConfiguration: Sendable {
    /// Where the sidecar's RESP door is.
    public var address: SidecarAddress
    /// The API key to log in with; `nil`: the sidecar asks for none.
    public var apiKey: String?
    /// The name that the key has in the sidecar's configuration; `nil`: any name.
    public var apiKeyName: String?
    /// How long connecting, TLS and login may take together.
    public var connectTimeout = Duration.seconds(5)
    /// How long an answer may take, beyond the wait that a call asks for.
    public var answerTimeout = Duration.seconds(5)
    /// The pause between attempts to connect: it doubles from the lower to the upper bound, with full jitter.
    public var reconnectDelay = Duration.milliseconds(20)...Duration.seconds(1)
    /// The most calls that may be in flight on the shared connection; further ones fail as `overloaded`.
    public var maximumInFlight = 1024
    /// The most calls that may wait for a lock or for a turn at one time; each has a connection of its own meanwhile.
    public var maximumWaiting = 256
    /// The channel of the fleet's events; `nil`: the sidecar is asked.
    public var eventChannel: String?

    /// `nil`: what the system trusts.
    private var trustRoots: [NIOSSLCertificate]?

    /// A configuration; everything else has its default.
    public init(address: SidecarAddress = .standard, apiKey: String? = nil) {
        self.address = address
        self.apiKey = apiKey
    }

    /// Trusts the authorities of a PEM file for TLS, instead of those that the system trusts.
    /// - Throws: `InterlockError` with the code `invalid` when the file cannot be read or has no certificate.
    public mutating func trustOnly(authoritiesIn file: String) throws(InterlockError) {
        do {
            trustRoots = try NIOSSLCertificate.fromPEMFile(file)
        } catch {
            throw InterlockError(
                .invalid, "\(file): expected certificates in PEM; there are none, or they cannot be read")
        }
    }

    /// The same for the Redis client below.
    package var redisConfiguration: RedisConfiguration {
        var redis: RedisConfiguration
        switch address {
        case .tcp(let host, let port):
            redis = RedisConfiguration(address: .host(host, port: port))
        case .tls(let host, let port):
            redis = RedisConfiguration(address: .host(host, port: port))
            var tls = TLSConfiguration.makeClientConfiguration()
            tls.minimumTLSVersion = .tlsv12
            if let trustRoots { tls.trustRoots = .certificates(trustRoots) }
            redis.tls = tls
        case .unixSocket(let path):
            redis = RedisConfiguration(address: .unixSocket(path: path))
        }
        redis.username = apiKeyName
        redis.password = apiKey
        redis.connectTimeout = connectTimeout
        redis.commandTimeout = answerTimeout
        redis.reconnectDelay = reconnectDelay
        redis.maximumPending = maximumInFlight
        return redis
    }
}

internal import NIOSSL
package import RedisClient

/// The settings of a client: the sidecar's address, the login, timeouts and limits.
public struct SidecarClientConfiguration: Sendable {
    /// The address of the sidecar's RESP API.
    public var address: SidecarAddress
    /// The API key to log in with; `nil` if the sidecar requires no key.
    public var apiKey: String?
    /// The name of the key in the sidecar's configuration; `nil` to accept any name.
    public var apiKeyName: String?
    /// The time limit for connecting, the TLS handshake and the login together.
    public var connectTimeout = Duration.seconds(5)
    /// The time limit for an answer, in addition to the wait that a call requests.
    public var responseTimeout = Duration.seconds(5)
    /// The range of the delay between connection attempts. The delay doubles from the lower to the upper bound, with
    /// full jitter.
    public var reconnectDelay = Duration.milliseconds(20)...Duration.seconds(1)
    /// The maximum number of calls in flight on the shared connection. Further calls fail with `overloaded`.
    public var maximumInFlight = 1024
    /// The maximum number of calls that may wait concurrently for a lock, a limit or a permit. Each uses its own
    /// connection while it waits.
    public var maximumWaiting = 256
    /// The channel of the fleet's events; `nil` to ask the sidecar for it.
    public var eventChannel: String?

    /// The certificate authorities to trust; `nil` for those that the system trusts.
    private var trustRoots: [NIOSSLCertificate]?

    /// Creates a configuration with default values for everything else.
    public init(address: SidecarAddress = .standard, apiKey: String? = nil) {
        self.address = address
        self.apiKey = apiKey
    }

    /// Trusts the authorities in a PEM file for TLS, instead of those that the system trusts.
    /// - Throws: `InterlockError` with the code `invalid` if the file cannot be read or contains no certificate.
    public mutating func trustOnly(authoritiesIn file: String) throws(InterlockError) {
        do {
            trustRoots = try NIOSSLCertificate.fromPEMFile(file)
        } catch {
            throw InterlockError(
                .invalid, "\(file): expected CA certificates in PEM, but the file cannot be read or contains none")
        }
    }

    /// The equivalent configuration of the underlying Redis client.
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
        redis.commandTimeout = responseTimeout
        redis.reconnectDelay = reconnectDelay
        redis.maximumPending = maximumInFlight
        return redis
    }
}

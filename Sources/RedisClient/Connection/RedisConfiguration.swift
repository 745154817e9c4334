internal import FoundationEssentials
internal import NIOCore
package import NIOSSL

/// The address of a Redis server, the credentials, and the timeouts.
package struct RedisConfiguration: Sendable {
    package enum Address: Hashable, Sendable {
        case host(String, port: Int)
        case unixSocket(path: String)
        /// The primary that Sentinels report. Each connection resolves it again.
        case primary(of: SentinelSettings)
        /// The servers of a cluster; the key of a command determines its server.
        case cluster(of: ClusterSettings)
    }

    package var address: Address
    /// The ACL user. If `nil` and there is a password, the user is `default`.
    package var username: String?
    package var password: String?
    package var database = 0
    /// The TLS settings, which also apply to Sentinels; `nil` for plain text.
    package var tls: TLSConfiguration?
    /// The name that every server's certificate is checked against; `nil` to check it against the host name or IP
    /// address.
    package var serverName: String?
    /// The time limit for connecting, the TLS handshake and the login together.
    package var connectTimeout = Duration.milliseconds(500)
    /// The maximum wait for the reply to a command.
    package var commandTimeout = Duration.milliseconds(500)
    /// The pause between attempts to connect, which doubles from the lower to the upper bound, with full jitter.
    package var reconnectDelay = Duration.milliseconds(20)...Duration.milliseconds(1000)
    /// The maximum number of commands in flight. Further commands fail with `overloaded`.
    package var maximumPending = 100_000
    package var replyLimits = ReplyLimits()
    /// The connection's name in `CLIENT LIST`, without spaces; `nil` to set no name. A server that rejects the name can
    /// still be used.
    package var clientName: String?
    /// The delay, after the first proof that the server is a primary, before commands carry the time of its clock (see
    /// `CommandEncoder.appendServerTime`); `nil` if they never do.
    package var serverTimeDelay: Duration?

    /// A key for the script with which the login checks the peer (see `PeerCheck`). The script does not access the key.
    /// `nil` to skip the check.
    package var peerCheckKey: String?

    /// Whether the server belongs to a cluster.
    var isOfCluster = false
    /// Whether the server is a Sentinel.
    var isSentinel = false
    /// The password and certificates that can be replaced at run time; `nil` to use those of this configuration.
    var secrets: NIOLoopBoundBox<RedisSecrets>?

    package init(address: Address) {
        self.address = address
    }

    /// Parses `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS,
    /// `unix://[[user]:password@]/path[?db=database]`, or a URL of Sentinels or of a cluster (see `SentinelSettings`,
    /// `ClusterSettings`).
    /// - Parameter requiresPassword: whether a user without a password is an error. Pass `false` if the password is set
    ///   separately.
    package init(url: String, requiresPassword: Bool = true) throws(RedisURLError) {
        try Self.checkEscapes(of: url)
        if let sentinels = try HostListURL(url, schemes: ["redis+sentinel", "rediss+sentinel"]) {
            self = try SentinelSettings.configuration(sentinels)
        } else if let cluster = try HostListURL(url, schemes: ["redis+cluster", "rediss+cluster"]) {
            self = try ClusterSettings.configuration(cluster)
        } else {
            try self.init(oneServer: url)
        }
        if requiresPassword { try checkLogins() }
    }

    /// Checks that each user has a password.
    /// - Throws: `RedisURLError` if a user has no password.
    package func checkLogins() throws(RedisURLError) {
        guard username == nil || password != nil else { throw RedisURLError(reason: "it names a user but no password") }
        guard case .primary(let sentinels) = address, sentinels.username != nil, sentinels.password == nil else { return }
        throw RedisURLError(reason: "it names a Sentinel user but no Sentinel password")
    }

    /// Rejects an invalid percent escape, and a URL that mixes percent escapes with characters that are not allowed in
    /// a URL. The parser would escape the percent signs again and silently change the password.
    private static func checkEscapes(of url: String) throws(RedisURLError) {
        let bytes = Array(url.utf8)
        func isHexadecimal(_ index: Int) -> Bool {
            bytes.indices.contains(index) && Character(Unicode.Scalar(bytes[index])).isHexDigit
        }
        for index in bytes.indices where bytes[index] == UInt8(ascii: "%") {
            guard isHexadecimal(index + 1), isHexadecimal(index + 2) else {
                throw RedisURLError(reason: "it has a % without two hexadecimal digits; write a password's % as %25")
            }
        }
        let isForbidden = { (byte: UInt8) in "\"<>\\^`{|}".utf8.contains(byte) || byte > 0x7e }
        guard bytes.contains(UInt8(ascii: "%")), bytes.contains(where: isForbidden) else { return }
        throw RedisURLError(
            reason: "it has characters that are not allowed in a URL; percent-encode all special characters of the password")
    }

    private init(oneServer url: String) throws(RedisURLError) {
        guard let components = URLComponents(string: url), let scheme = components.scheme?.lowercased() else {
            throw RedisURLError(reason: "it is not a URL")
        }
        guard components.fragment == nil else {
            throw RedisURLError(reason: "it has a #; percent-encode all special characters of the password")
        }
        let databaseText: String
        switch scheme {
        case "redis", "rediss":
            self.init(address: try Address(of: components, standardPort: 6379))
            if scheme == "rediss" { tls = Self.standardTLS }
            databaseText = String(components.path.drop { $0 == "/" })
            guard components.queryItems == nil else { throw RedisURLError(reason: "it has a query, which is not supported") }
        case "unix":
            guard components.host?.isEmpty ?? true, components.path.count > 1 else {
                throw RedisURLError(reason: "a Unix socket needs an absolute path, such as unix:///run/redis.sock")
            }
            self.init(address: .unixSocket(path: components.path))
            let items = components.queryItems ?? []
            guard items.allSatisfy({ $0.name == "db" }) else {
                throw RedisURLError(reason: "only the parameter db is allowed in a unix:// URL")
            }
            databaseText = items.first?.value ?? ""
        default:
            throw RedisURLError(
                reason:
                    "\(scheme):// is not supported; use redis:// or rediss://, alone or with +sentinel or +cluster, or unix://"
            )
        }
        try read(credentials: components, database: databaseText)
    }

    /// Reads the user and password of `components`, and the number in `database` unless it is empty.
    mutating func read(credentials components: URLComponents, database text: String) throws(RedisURLError) {
        if let user = components.user, !user.isEmpty { username = user }
        password = components.password
        if !text.isEmpty {
            guard let number = Int(text), number >= 0 else {
                // The message omits the text, which may be the end of a password.
                throw RedisURLError(
                    reason: "the database after the host must be a number from 0; percent-encode @ : / ? # % in a password")
            }
            database = number
        }
    }

    /// The TLS settings of `rediss://`: TLS 1.2 or newer, with a certificate from an authority that this host trusts. A
    /// peer that does not close TLS properly delays the close by at most 100 ms.
    package static var standardTLS: TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.shutdownTimeout = .milliseconds(100)
        return tls
    }

    /// The address without credentials, for messages.
    package var displayName: String {
        let scheme = tls == nil ? "redis" : "rediss"
        return switch address {
        case .host: "\(scheme)://\(address)/\(database)"
        case .unixSocket: "unix://\(address)" + (database == 0 ? "" : "?db=\(database)")
        case .primary(let settings):
            "\(scheme)+sentinel://\(settings.sentinels.map(\.description).joined(separator: ","))/\(settings.primary)/\(database)"
        case .cluster: "\(scheme)+cluster://\(address)"
        }
    }
}

extension RedisConfiguration.Address: CustomStringConvertible {
    /// Reads the host and port of a URL.
    init(of components: URLComponents, standardPort: Int) throws(RedisURLError) {
        guard var host = components.host, !host.isEmpty else { throw RedisURLError(reason: "it has no host") }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        let port = components.port ?? standardPort
        guard (1...65535).contains(port) else {
            // The message omits the number, which may be the beginning of a password.
            throw RedisURLError(reason: "the port is not in the range 1 to 65535")
        }
        self = .host(host, port: port)
    }

    /// The address for messages: `host:port`, `[address]:port`, a path, a primary's name, or a cluster's servers.
    package var description: String {
        switch self {
        case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unixSocket(let path): path
        case .primary(let settings): settings.primary
        case .cluster(let settings): settings.seeds.map(\.description).joined(separator: ",")
        }
    }
}

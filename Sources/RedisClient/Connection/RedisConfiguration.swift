internal import FoundationEssentials
internal import NIOCore
package import NIOSSL

/// Where a Redis server listens, how to log in, and how long to wait for it.
package struct RedisConfiguration: Sendable {
    package enum Address: Hashable, Sendable {
        case host(String, port: Int)
        case unixSocket(path: String)
        /// Whichever server Sentinels name as the primary; found anew for each connection.
        case primary(of: SentinelSettings)
        /// The servers of a cluster, each command's by its key.
        case cluster(of: ClusterSettings)
    }

    package var address: Address
    /// The ACL user; `nil` with a password: the user `default`.
    package var username: String?
    package var password: String?
    package var database = 0
    /// TLS settings, for Sentinels too; `nil`: plain text.
    package var tls: TLSConfiguration?
    /// The name that every server's certificate is checked against; `nil`: the host's own, of an address in digits the address.
    package var serverName: String?
    /// How long connecting, TLS and login may take together.
    package var connectTimeout = Duration.milliseconds(500)
    /// How long a command may wait for its reply.
    package var commandTimeout = Duration.milliseconds(500)
    /// The pause between attempts to connect: doubles from the lower to the upper bound, with full jitter.
    package var reconnectDelay = Duration.milliseconds(20)...Duration.milliseconds(1000)
    /// The most commands that may await replies; further ones are refused as `overloaded`.
    package var maximumPending = 100_000
    package var replyLimits = ReplyLimits()
    /// What `CLIENT LIST` shows of the connection, without spaces; `nil`: nothing. A server that refuses it does not refuse the login.
    package var clientName: String?
    /// From how long after a first look on a connection knows the server's clock, so that commands tell it: see
    /// `CommandEncoder.appendServerTime`. `nil`: it never does.
    package var knowsTimeAfter: Duration?

    /// The key that a login's check of the peer names in its script and does not touch: see `PeerCheck`. `nil` for no
    /// check.
    package var peerCheckKey: String?

    /// Whether the server belongs to a cluster.
    var isOfCluster = false
    /// Whether the server is a Sentinel.
    var isSentinel = false
    /// Replaces the password and certificates; `nil` to keep those in this configuration.
    var secrets: NIOLoopBoundBox<RedisSecrets>?

    package init(address: Address) {
        self.address = address
    }

    /// Reads `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS,
    /// `unix://[[user]:password@]/path[?db=database]`, or a URL of Sentinels or of a cluster (see `SentinelSettings`, `ClusterSettings`).
    /// - Parameter isWhole: whether a user without a password is a mistake; if not, the password is said elsewhere.
    package init(url: String, isWhole: Bool = true) throws(RedisURLError) {
        try Self.checkEscapes(of: url)
        if let sentinels = try HostListURL(url, schemes: ["redis+sentinel", "rediss+sentinel"]) {
            self = try SentinelSettings.configuration(sentinels)
        } else if let cluster = try HostListURL(url, schemes: ["redis+cluster", "rediss+cluster"]) {
            self = try ClusterSettings.configuration(cluster)
        } else {
            try self.init(oneServer: url)
        }
        if isWhole { try checkLogins() }
    }

    /// - Throws: `RedisURLError` when a user has no password.
    package func checkLogins() throws(RedisURLError) {
        guard username == nil || password != nil else { throw RedisURLError(reason: "it names a user but no password") }
        guard case .primary(let sentinels) = address, sentinels.username != nil, sentinels.password == nil else { return }
        throw RedisURLError(reason: "it names a user of the Sentinels but no password")
    }

    /// Refuses a URL with percent escapes that is not valid as a whole. The parser would escape its percent signs once
    /// more, and silently change the password.
    private static func checkEscapes(of url: String) throws(RedisURLError) {
        let bytes = Array(url.utf8)
        func isHexadecimal(_ place: Int) -> Bool {
            bytes.indices.contains(place) && Character(Unicode.Scalar(bytes[place])).isHexDigit
        }
        for place in bytes.indices where bytes[place] == UInt8(ascii: "%") {
            guard isHexadecimal(place + 1), isHexadecimal(place + 2) else {
                throw RedisURLError(reason: "a percent sign in it escapes nothing; a password's own percent sign is %25")
            }
        }
        let isOutside = { (byte: UInt8) in "\"<>\\^`{|}".utf8.contains(byte) || byte > 0x7e }
        guard bytes.contains(UInt8(ascii: "%")), bytes.contains(where: isOutside) else { return }
        throw RedisURLError(
            reason: "it has percent escapes and characters that no URL has; percent-encode all special characters of a password")
    }

    private init(oneServer url: String) throws(RedisURLError) {
        guard let components = URLComponents(string: url), let scheme = components.scheme?.lowercased() else {
            throw RedisURLError(reason: "it is not a URL")
        }
        let databaseText: String
        switch scheme {
        case "redis", "rediss":
            self.init(address: try Address(of: components, standardPort: 6379))
            if scheme == "rediss" { tls = Self.standardTLS }
            databaseText = String(components.path.drop { $0 == "/" })
            guard components.queryItems == nil else { throw RedisURLError(reason: "it has a query, which means nothing here") }
        case "unix":
            guard components.host?.isEmpty ?? true, components.path.count > 1 else {
                throw RedisURLError(reason: "a Unix socket is named by its whole path: unix:///run/redis.sock")
            }
            self.init(address: .unixSocket(path: components.path))
            let items = components.queryItems ?? []
            guard items.allSatisfy({ $0.name == "db" }) else {
                throw RedisURLError(reason: "the only parameter of a unix:// URL is db")
            }
            databaseText = items.first?.value ?? ""
        default:
            throw RedisURLError(
                reason:
                    "\(scheme):// is not supported; use redis://, rediss://, unix://, or one of the first two with +sentinel or +cluster"
            )
        }
        try read(credentials: components, database: databaseText)
    }

    /// User and password of `components`, and the number that `database` spells, unless it is empty.
    mutating func read(credentials components: URLComponents, database text: String) throws(RedisURLError) {
        if let user = components.user, !user.isEmpty { username = user }
        password = components.password
        if !text.isEmpty {
            guard let number = Int(text), number >= 0 else {
                // The text is not repeated: it may be the end of a password.
                throw RedisURLError(
                    reason: "the database behind the host must be a number from 0; percent-encode @ : / ? # % in a password")
            }
            database = number
        }
    }

    /// What `rediss://` means: TLS 1.2 or newer, with a certificate that an authority of this machine has signed. A peer that does not
    /// say goodbye holds nothing up.
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
    /// Reads host and port of a URL.
    init(of components: URLComponents, standardPort: Int) throws(RedisURLError) {
        guard var host = components.host, !host.isEmpty else { throw RedisURLError(reason: "it names no host") }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        let port = components.port ?? standardPort
        guard (1...65535).contains(port) else { throw RedisURLError(reason: "port \(port) is not in 1…65535") }
        self = .host(host, port: port)
    }

    /// `host:port`, `[address]:port`, a path, a primary's name, or a cluster's servers.
    package var description: String {
        switch self {
        case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unixSocket(let path): path
        case .primary(let settings): settings.primary
        case .cluster(let settings): settings.seeds.map(\.description).joined(separator: ",")
        }
    }
}

internal import FoundationEssentials
package import NIOSSL

/// Where a Redis server listens, how to log in, and how long to wait for it.
package struct RedisConfiguration: Sendable {
    package enum Address: Hashable, Sendable {
        case host(String, port: Int)
        case unixSocket(path: String)
    }

    package var address: Address
    /// The ACL user; `nil` with a password: the user `default`.
    package var username: String?
    package var password: String?
    package var database = 0
    /// TLS settings; `nil`: plain text.
    package var tls: TLSConfiguration?
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

    package init(address: Address) {
        self.address = address
    }

    /// Reads `redis://[[user]:password@]host[:port][/database]`, the same with `rediss://` for TLS, or
    /// `unix://[[user]:password@]/path[?db=database]`.
    package init(url: String) throws(RedisURLError) {
        guard let components = URLComponents(string: url), let scheme = components.scheme?.lowercased() else {
            throw RedisURLError(reason: "it is not a URL")
        }
        let databaseText: String
        switch scheme {
        case "redis", "rediss":
            guard var host = components.host, !host.isEmpty else { throw RedisURLError(reason: "it names no host") }
            if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
            let port = components.port ?? 6379
            guard (1...65535).contains(port) else { throw RedisURLError(reason: "port \(port) is not in 1…65535") }
            self.init(address: .host(host, port: port))
            if scheme == "rediss" {
                var tls = TLSConfiguration.makeClientConfiguration()
                tls.minimumTLSVersion = .tlsv12
                self.tls = tls
            }
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
            throw RedisURLError(reason: "\(scheme):// is not supported; use redis://, rediss:// or unix://")
        }
        if let user = components.user, !user.isEmpty { username = user }
        password = components.password
        guard username == nil || password != nil else { throw RedisURLError(reason: "it names a user but no password") }
        if !databaseText.isEmpty {
            guard let number = Int(databaseText), number >= 0 else {
                throw RedisURLError(reason: "the database must be a number from 0, not \"\(databaseText)\"")
            }
            database = number
        }
    }

    /// The address without credentials, for messages.
    package var displayName: String {
        switch address {
        case .host(let host, let port):
            "\(tls == nil ? "redis" : "rediss")://\(host.contains(":") ? "[\(host)]" : host):\(port)/\(database)"
        case .unixSocket(let path): "unix://\(path)" + (database == 0 ? "" : "?db=\(database)")
        }
    }
}

/// What is wrong with a Redis URL. Never contains the URL itself, which may hold a password.
package struct RedisURLError: Error, Hashable, Sendable, CustomStringConvertible {
    package var reason: String

    package var description: String { "the Redis URL cannot be used: \(reason)" }
}

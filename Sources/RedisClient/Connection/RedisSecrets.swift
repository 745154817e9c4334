package import NIOCore
internal import NIOSSL

/// The secrets that a new connection uses: passwords, certificates, and the authorities that servers' certificates are
/// checked against. They can be replaced while connections are open.
struct RedisSecrets: Sendable {
    private let password: String?
    private let sentinelPassword: String?
    private let tls: TLSConfiguration?

    init(of configuration: RedisConfiguration) {
        password = configuration.password
        tls = configuration.tls
        if case .primary(let sentinels) = configuration.address {
            sentinelPassword = sentinels.password
        } else {
            sentinelPassword = nil
        }
    }

    /// Returns `configuration` with these secrets.
    func applied(to configuration: RedisConfiguration) -> RedisConfiguration {
        var server = configuration
        server.password = server.isSentinel ? sentinelPassword : password
        if server.tls != nil { server.tls = tls ?? server.tls }
        return server
    }
}

extension RedisConfiguration {
    /// Returns the same configuration, whose new connections use the secrets last passed to `replaceSecrets`. For
    /// connections on `eventLoop`.
    package func withReplaceableSecrets(on eventLoop: any EventLoop) -> RedisConfiguration {
        var configuration = self
        configuration.secrets = NIOLoopBoundBox.makeBoxSendingValue(RedisSecrets(of: self), eventLoop: eventLoop)
        return configuration
    }

    /// Makes new connections use the secrets of `new`; open connections keep theirs. Call it on the event loop of
    /// `withReplaceableSecrets`; without that, it does nothing.
    package func replaceSecrets(by new: RedisConfiguration) {
        secrets?.value = RedisSecrets(of: new)
    }

    /// The configuration with the secrets of the next connection.
    var current: RedisConfiguration { secrets?.value.applied(to: self) ?? self }
}

package import NIOCore
internal import NIOSSL

/// The secrets that a new connection uses, replaceable while others stand: passwords, certificates and the
/// authorities that servers' certificates are checked against.
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

    /// The same server with these secrets.
    func applied(to configuration: RedisConfiguration) -> RedisConfiguration {
        var server = configuration
        server.password = server.isSentinel ? sentinelPassword : password
        if server.tls != nil { server.tls = tls ?? server.tls }
        return server
    }
}

extension RedisConfiguration {
    /// The same configuration; its connections show what `replaceSecrets` says last. For connections on `eventLoop`.
    package func withReplaceableSecrets(on eventLoop: any EventLoop) -> RedisConfiguration {
        var configuration = self
        configuration.secrets = NIOLoopBoundBox.makeBoxSendingValue(RedisSecrets(of: self), eventLoop: eventLoop)
        return configuration
    }

    /// Connections that are made from now on show the secrets of `new`; those that stand keep what they have. Called on the event loop of
    /// `withReplaceableSecrets`, without which this does nothing.
    package func replaceSecrets(by new: RedisConfiguration) {
        secrets?.value = RedisSecrets(of: new)
    }

    /// The secrets of the next connection.
    var current: RedisConfiguration { secrets?.value.applied(to: self) ?? self }
}

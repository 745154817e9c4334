package import NIOCore
internal import NIOSSL

/// The secrets that new connections use: passwords, certificates, and trusted authorities. They can be replaced while
/// connections are open.
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
    /// Returns the same configuration with replaceable secrets: new connections use the secrets last passed to
    /// `replaceSecrets`. All connections must be on `eventLoop`.
    package func withReplaceableSecrets(on eventLoop: any EventLoop) -> RedisConfiguration {
        var configuration = self
        configuration.secrets = NIOLoopBoundBox.makeBoxSendingValue(RedisSecrets(of: self), eventLoop: eventLoop)
        return configuration
    }

    /// Makes new connections use the secrets of `new`; open connections keep theirs. Must be called on the event loop
    /// passed to `withReplaceableSecrets`. Has no effect on a configuration without replaceable secrets.
    package func replaceSecrets(by new: RedisConfiguration) {
        secrets?.value = RedisSecrets(of: new)
    }

    /// This configuration with the latest secrets.
    var withLatestSecrets: RedisConfiguration { secrets?.value.applied(to: self) ?? self }
}

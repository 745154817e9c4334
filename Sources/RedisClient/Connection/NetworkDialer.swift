package import NIOCore
internal import NIOPosix
internal import NIOSSL

/// Dials over TCP, TLS or a Unix socket, depending on the configuration.
package struct NetworkDialer: RedisDialer {
    package init() {}

    /// Opens a connection to the address of `configuration`.
    /// - Returns: a future that fails with a `RedisError` if the TLS settings cannot be used, or else with NIO's error.
    package func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        let tls: NIOSSLContext?
        do {
            tls = try configuration.tls.map { try NIOSSLContext(configuration: $0) }
        } catch {
            return eventLoop.makeFailedFuture(
                RedisError(.connectionFailed, "invalid TLS settings for Redis: \(error)"))
        }
        let serverName = configuration.checkedName
        let bootstrap = ClientBootstrap(group: eventLoop)
            .connectTimeout(TimeAmount(configuration.connectTimeout))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let tls else { return }
                    try channel.pipeline.syncOperations.addHandler(NIOSSLClientHandler(context: tls, serverHostname: serverName))
                }
            }
        return switch configuration.address {
        case .host(let host, let port): bootstrap.connect(host: host, port: port)
        case .unixSocket(let path): bootstrap.connect(unixDomainSocketPath: path)
        case .primary(let settings):
            eventLoop.makeFailedFuture(
                RedisError(.connectionFailed, "only Sentinels know the address of the primary \(settings.primary)"))
        case .cluster:
            eventLoop.makeFailedFuture(RedisError(.connectionFailed, "only the cluster knows the addresses of its servers"))
        }
    }
}

extension RedisConfiguration {
    /// The name that TLS checks the certificate against; `nil` for an IP address or a Unix socket.
    fileprivate var checkedName: String? {
        if let serverName { return serverName }
        guard case .host(let host, _) = address, (try? SocketAddress(ipAddress: host, port: 0)) == nil else { return nil }
        return host
    }
}

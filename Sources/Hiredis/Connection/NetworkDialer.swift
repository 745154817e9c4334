internal import Glibc
package import NIOCore
internal import NIOPosix
internal import NIOSSL

/// Dials over TCP, TLS or a Unix socket, as the configuration says.
package struct NetworkDialer: RedisDialer {
    package init() {}

    /// - Returns: a failed future with a `RedisError` when the TLS settings cannot be used, or with NIO's error.
    package func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        let tls: NIOSSLContext?
        do {
            tls = try configuration.tls.map { try NIOSSLContext(configuration: $0) }
        } catch {
            return eventLoop.makeFailedFuture(
                RedisError(.connectionFailed, "the TLS settings for Redis cannot be used: \(error)"))
        }
        let serverName = configuration.serverName
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
        }
    }
}

extension RedisConfiguration {
    /// The name that TLS checks the certificate against: none for an address in digits.
    fileprivate var serverName: String? {
        guard case .host(let host, _) = address, (try? SocketAddress(ipAddress: host, port: 0)) == nil else { return nil }
        return host
    }
}

/// Why a connection could not be made, or was lost, in words for people: the network's errors show how they are built.
package struct NetworkReason: CustomStringConvertible {
    package let description: String

    package init(_ error: any Error) {
        description = Self.sentence(error)
    }

    private static func sentence(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // Of several addresses the last one tried has had the most time.
            error.connectionErrors.last.map { sentence($0.error) } ?? "the name \(error.host) is not known"
        case let error as IOError:
            String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout:
            "nobody answered in time"
        case NIOSSLError.handshakeFailed(let reason):
            "TLS could not be agreed on: \(reason)"
        default:
            "\(error)"
        }
    }
}

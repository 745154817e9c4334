internal import Glibc
internal import NIOCore

/// Detects peers that vanished silently, because their host lost power or the network failed. A linked lease lasts
/// until its client's connection ends, so a connection must not outlast its client by much.
enum PeerLiveness {
    private static let idleSeconds: SocketOptionValue = 15
    private static let probeSeconds: SocketOptionValue = 5
    private static let probes: SocketOptionValue = 3
    /// How long sent bytes may stay unacknowledged.
    private static let unacknowledgedMilliseconds: SocketOptionValue = 30_000

    /// The options of accepted TCP connections; Unix sockets have no such peers.
    static let options: [(ChannelOptions.Types.SocketOption, SocketOptionValue)] = [
        (.init(level: .socket, name: .so_keepalive), 1),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPIDLE)), idleSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPINTVL)), probeSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPCNT)), probes),
        (.init(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT)), unacknowledgedMilliseconds),
    ]

    /// Returns whether an error means that the peer is unreachable. It may still be running behind a failed network:
    /// when a process ends, its operating system closes or resets the connection.
    static func indicatesUnreachablePeer(_ error: any Error) -> Bool {
        guard let code = (error as? IOError)?.errnoCode else { return false }
        return [ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN].contains(code)
    }

    /// Sets the options on an accepted connection.
    static func watch(_ channel: any Channel) {
        guard channel.remoteAddress?.ipAddress != nil else { return }
        // A system may lack an option. The connection works without it.
        for (option, value) in options { _ = channel.setOption(option, value: value) }
    }
}

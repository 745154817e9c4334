internal import Glibc
internal import NIOCore

/// Detects peers that vanished silently, because their host lost power or the network failed. A linked lease lasts
/// until its client's connection ends, so a connection must not outlast its client by much.
enum PeerLiveness {
    /// The time without traffic before the first keep-alive probe.
    private static let idleSeconds: SocketOptionValue = 15
    /// The interval between probes.
    private static let probeSeconds: SocketOptionValue = 5
    /// The number of unanswered probes after which the connection fails.
    private static let probeCount: SocketOptionValue = 3
    /// The time for which sent bytes may stay unacknowledged.
    private static let unacknowledgedMilliseconds: SocketOptionValue = 30_000

    /// The options of accepted TCP connections. The peer of a Unix socket cannot vanish silently.
    static let options: [(ChannelOptions.Types.SocketOption, SocketOptionValue)] = [
        (.init(level: .socket, name: .so_keepalive), 1),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPIDLE)), idleSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPINTVL)), probeSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPCNT)), probeCount),
        (.init(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT)), unacknowledgedMilliseconds),
    ]

    /// Returns whether an error means that the peer is unreachable. The peer may still be running behind a failed
    /// network: if it had ended, its operating system would have closed or reset the connection.
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

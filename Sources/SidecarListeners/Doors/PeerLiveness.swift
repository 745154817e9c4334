internal import Glibc
internal import NIOCore

/// What a TCP connection does about a peer that vanished without a word: its host lost power, or the network between is cut.
/// A linked lease lives as long as its client's connection, so a connection must not outlive its client by much.
enum PeerLiveness {
    private static let idleSeconds: SocketOptionValue = 15
    private static let probeSeconds: SocketOptionValue = 5
    private static let probes: SocketOptionValue = 3
    /// For how long bytes that were sent may stay unacknowledged.
    private static let unacknowledgedMilliseconds: SocketOptionValue = 30_000

    /// For connections that are accepted on TCP; Unix sockets have no such peers.
    static let options: [(ChannelOptions.Types.SocketOption, SocketOptionValue)] = [
        (.init(level: .socket, name: .so_keepalive), 1),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPIDLE)), idleSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPINTVL)), probeSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPCNT)), probes),
        (.init(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT)), unacknowledgedMilliseconds),
    ]

    /// Whether an error says that nothing was heard of the peer: it may live on, behind a network that fails. A process that ends has
    /// its system say so, by an end or by a reset.
    static func isSilence(_ error: any Error) -> Bool {
        guard let code = (error as? IOError)?.errnoCode else { return false }
        return [ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN].contains(code)
    }

    /// Sets the options on an accepted connection.
    static func watch(_ channel: any Channel) {
        guard channel.remoteAddress?.ipAddress != nil else { return }
        // A system that does not know one of them goes without: the connection is as good otherwise.
        for (option, value) in options { _ = channel.setOption(option, value: value) }
    }
}

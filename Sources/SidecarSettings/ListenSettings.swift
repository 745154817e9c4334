package import InterlockCore
package import NIOCore

/// `listen`: the doors that the sidecar opens.
package struct ListenSettings: Sendable, Equatable {
    /// `listen.resp`: the RESP door, HOST:PORT; `127.0.0.1:7379`.
    package var resp = SocketEndpoint(host: "127.0.0.1", port: 7379)
    /// `listen.http`: the HTTP door, HOST:PORT; `127.0.0.1:7380`.
    package var http = SocketEndpoint(host: "127.0.0.1", port: 7380)
    /// `listen.unix`: the path of a Unix socket for the RESP door, at most 103 bytes; none by default.
    package var unix: String?
    /// `listen.unix_mode`: who may use that socket; by default this user alone, with `listen.unix_group` its members too.
    package var unixMode: SocketMode?
    /// `listen.unix_group`: the group of that socket, by name or number; by default the process' own.
    package var unixGroup: String?
    /// `listen.grpc`: the gRPC door, HOST:PORT; none by default.
    package var grpc: SocketEndpoint?
    /// `listen.hosts`: further names by which the HTTP door may be called; none by default.
    package var hosts: [String] = []
    /// `listen.tls`: certificate and key for the doors; none by default.
    package var tls: TLSSettings?
    /// `listen.allow_plaintext`: keys may cross the network unencrypted, because it is private; false by default.
    package var allowsPlaintext = false
    /// `listen.max_connections`: the most client connections at one time, over all doors; 10000 by default.
    package var maximumConnections = 10_000

    package init() {}
}

extension SocketEndpoint {
    /// Where a listener is that was asked to be here: with the port that the system chose.
    package func bound(to address: SocketAddress?) -> SocketEndpoint {
        SocketEndpoint(host: address?.ipAddress ?? host, port: address?.port ?? port)
    }
}

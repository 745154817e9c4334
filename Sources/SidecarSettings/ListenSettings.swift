package import InterlockCore
package import NIOCore

/// `listen`: the listeners of the sidecar.
package struct ListenSettings: Sendable, Equatable {
    /// `listen.resp`: the address of the RESP API, HOST:PORT; `127.0.0.1:7379` by default.
    package var resp = SocketEndpoint(host: "127.0.0.1", port: 7379)
    /// `listen.http`: the address of the HTTP API, HOST:PORT; `127.0.0.1:7380` by default.
    package var http = SocketEndpoint(host: "127.0.0.1", port: 7380)
    /// `listen.unix`: the path of a Unix socket for the RESP API, at most 103 bytes; none by default.
    package var unix: String?
    /// `listen.unix_mode`: the permissions of that socket; by default, only this user has access, and the group if
    /// `listen.unix_group` is set.
    package var unixMode: SocketMode?
    /// `listen.unix_group`: the group of that socket, by name or number; the process's own group by default.
    package var unixGroup: String?
    /// `listen.grpc`: the address of the gRPC API, HOST:PORT; none by default.
    package var grpc: SocketEndpoint?
    /// `listen.hosts`: additional host names under which clients may call the HTTP API; none by default.
    package var hosts: [String] = []
    /// `listen.tls`: the certificate and key of the listeners; none by default.
    package var tls: TLSSettings?
    /// `listen.allow_plaintext`: whether keys may cross a private network unencrypted; false by default.
    package var allowsPlaintext = false
    /// `listen.max_connections`: the maximum number of concurrent client connections at each listener; 10000 by
    /// default.
    package var maximumConnections = 10_000

    package init() {}
}

extension SocketEndpoint {
    /// Returns the actual endpoint of a listener that was bound to this one, with the port that the system chose.
    package func bound(to address: SocketAddress?) -> SocketEndpoint {
        SocketEndpoint(host: address?.ipAddress ?? host, port: address?.port ?? port)
    }
}

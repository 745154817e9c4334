/// `listen`: the doors that the sidecar opens.
public struct ListenSettings: Sendable, Equatable {
    /// `listen.resp`: the RESP door, HOST:PORT; `127.0.0.1:7379`.
    public var resp = SocketEndpoint(host: "127.0.0.1", port: 7379)
    /// `listen.http`: the HTTP door, HOST:PORT; `127.0.0.1:7380`.
    public var http = SocketEndpoint(host: "127.0.0.1", port: 7380)
    /// `listen.unix`: the path of a Unix socket for the RESP door, at most 103 bytes; none by default.
    public var unix: String?
    /// `listen.hosts`: further names by which the HTTP door may be called; none by default.
    public var hosts: [String] = []
    /// `listen.tls`: certificate and key for both doors; none by default.
    public var tls: TLSSettings?
    /// `listen.allow_plaintext`: keys may cross the network unencrypted, because it is private; false by default.
    public var allowsPlaintext = false
    /// `listen.max_connections`: the most client connections at one time, over all doors; 10000 by default.
    public var maximumConnections = 10_000

    public init() {}
}

/// `listen.tls`: both are paths of PEM files, relative to the working directory.
public struct TLSSettings: Sendable, Equatable {
    /// `listen.tls.certificate`: the certificate, then its chain.
    public var certificate: String
    /// `listen.tls.key`: the certificate's private key.
    public var key: String

    public init(certificate: String, key: String) {
        self.certificate = certificate
        self.key = key
    }
}

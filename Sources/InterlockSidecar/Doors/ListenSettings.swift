package import InterlockCore
internal import NIOCore

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

/// Who may use a Unix socket: the file's permissions, `0660`. Connecting takes the right to write.
package struct SocketMode: Hashable, Sendable, CustomStringConvertible {
    /// The owner's, the group's and everybody's, as `chmod` has them.
    package let bits: UInt16

    /// 0600: this user.
    static let own = SocketMode(bits: 0o600)
    /// 0660: the group as well.
    static let ofGroup = SocketMode(bits: 0o660)

    package var description: String { "0" + String(bits, radix: 8) }

    private init(bits: UInt16) {
        self.bits = bits
    }

    /// Reads three octal digits, also behind a zero.
    /// - Throws: `ConfigurationExpectation`, which says what was expected instead.
    package init(parsing text: String) throws(ConfigurationExpectation) {
        let digits = text.utf8.count == 4 && text.hasPrefix("0") ? text.dropFirst() : text[...]
        guard digits.utf8.count == 3, digits.allSatisfy({ "0246".contains($0) }), digits.first == "6",
            let bits = UInt16(digits, radix: 8)
        else {
            throw ConfigurationExpectation(
                "permissions such as 0600, 0660 or 0666: reading and writing for the owner, and no others than these two")
        }
        self.init(bits: bits)
    }
}

/// `listen.tls`: all are paths of PEM files, relative to the working directory.
package struct TLSSettings: Sendable, Equatable {
    /// `listen.tls.certificate`: the certificate, then its chain.
    package var certificate: String
    /// `listen.tls.key`: the certificate's private key.
    package var key: String
    /// `listen.tls.grpc_client_ca`: authorities, one of which has to have signed the certificate of a gRPC client; `nil`: they show none.
    package var grpcClientAuthorities: String?

    package init(certificate: String, key: String, grpcClientAuthorities: String? = nil) {
        self.certificate = certificate
        self.key = key
        self.grpcClientAuthorities = grpcClientAuthorities
    }
}

extension SocketEndpoint {
    /// Where a listener is that was asked to be here: with the port that the system chose.
    func bound(to address: SocketAddress?) -> SocketEndpoint {
        SocketEndpoint(host: address?.ipAddress ?? host, port: address?.port ?? port)
    }
}

/// `listen.tls`: the paths of PEM files, relative to the working directory.
package struct TLSSettings: Sendable, Equatable {
    /// `listen.tls.certificate`: the certificate, followed by its chain.
    package var certificate: String
    /// `listen.tls.key`: the certificate's private key.
    package var key: String
    /// `listen.tls.grpc_client_ca`: the authorities that may sign the certificates of gRPC clients; `nil` if clients
    /// need no certificate.
    package var grpcClientAuthorities: String?

    package init(certificate: String, key: String, grpcClientAuthorities: String? = nil) {
        self.certificate = certificate
        self.key = key
        self.grpcClientAuthorities = grpcClientAuthorities
    }
}

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

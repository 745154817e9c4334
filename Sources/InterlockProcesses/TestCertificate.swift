internal import Glibc
internal import NIOSSL
package import RedisClient
internal import Subprocess

/// A self-signed certificate for `localhost` and 127.0.0.1, created with `openssl` and valid for a day.
package struct TestCertificate: Hashable, Sendable {
    /// The path of the certificate in PEM, which is its own root.
    package let certificatePath: String
    /// The path of the private key in PEM.
    package let keyPath: String

    /// Writes `certificate.pem` and `key.pem` to `folder`.
    /// - Throws: `RedisServerError` with the output of `openssl` if it fails.
    package static func selfSigned(in folder: String) async throws -> TestCertificate {
        let certificate = TestCertificate(certificatePath: "\(folder)/certificate.pem", keyPath: "\(folder)/key.pem")
        let result = try await run(
            .name("openssl"),
            arguments: [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout", certificate.keyPath, "-out", certificate.certificatePath,
            ],
            output: .discarded,
            error: .string(limit: 64 << 10)
        )
        guard result.terminationStatus.isSuccess else {
            throw RedisServerError(
                reason: "openssl could not make a certificate: \(result.standardError)", log: "")
        }
        return certificate
    }
}

extension RedisConfiguration {
    /// Uses TLS with servers that present this certificate.
    package mutating func trust(_ certificate: TestCertificate) {
        var settings = tls ?? Self.standardTLS
        settings.trustRoots = .file(certificate.certificatePath)
        tls = settings
    }
}

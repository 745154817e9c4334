internal import Subprocess

/// A self-signed certificate for `localhost` and 127.0.0.1, valid for a day, made by the `openssl` program.
package struct TestCertificate: Hashable, Sendable {
    /// The certificate in PEM; it is its own root of trust.
    package let certificatePath: String
    /// Its private key in PEM.
    package let keyPath: String

    /// Writes `certificate.pem` and `key.pem` to `folder`.
    /// - Throws: `RedisServerError` with what `openssl` printed when it failed.
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

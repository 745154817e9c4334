internal import FoundationEssentials
internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import NIOSSL
package import RedisClient
internal import Subprocess

/// A fresh folder that only this user may enter.
package struct TemporaryFolder: Sendable {
    package let path: String

    /// Creates the folder in `/tmp`, ignoring `TMPDIR`, because the path of a Unix socket is limited to 107 bytes.
    package init() throws {
        var template = Array("/tmp/interlock-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw RedisServerError(reason: "cannot create a folder in /tmp: \(String(cString: strerror(errno)))", log: "")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Deletes a server's saved data, so that it starts empty.
    func removeData() {
        for name in ["dump.rdb", "appendonlydir", "appendonly.aof"] {
            // Most of these do not exist.
            try? FileManager.default.removeItem(atPath: "\(path)/\(name)")
        }
    }

    /// Deletes the folder and its content.
    package func remove() {
        // A leftover folder in /tmp must not fail a finished test.
        try? FileManager.default.removeItem(atPath: path)
    }
}

/// A free TCP port of 127.0.0.1. Another process may take it first, so be ready to try again.
package enum LocalPort {
    /// Below the ephemeral ports. An ephemeral port could belong to an outgoing connection, and a client that connects to it while
    /// its server is away could even connect to itself.
    private static let candidates = 10_240..<32_768

    package static func unused() async throws -> Int {
        for _ in 0..<100 {
            let port = Int.random(in: candidates)
            // Taken: try another one.
            guard let channel = try? await bound(to: port) else { continue }
            try await channel.close()
            return port
        }
        throw RedisServerError(reason: "found no free port among \(candidates) of 127.0.0.1", log: "")
    }

    /// Starts a server on a port that was free a moment ago, and on another one if somebody else has taken it meanwhile.
    /// - Throws: what `start` throws: of a taken port, a `RedisServerError` whose log says so.
    package static func withUnused<Server: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ start: (Int) async throws -> Server
    ) async throws -> Server {
        var attemptsLeft = 5
        while true {
            do {
                return try await start(try await unused())
            } catch let error as RedisServerError where attemptsLeft > 1 && error.log.contains("Address already in use") {
                attemptsLeft -= 1
            }
        }
    }

    private static func bound(to port: Int) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: port).get()
    }
}

/// A self-signed certificate for `localhost` and 127.0.0.1, made with `openssl` and valid for a day.
package struct TestCertificate: Hashable, Sendable {
    /// The certificate in PEM. It is its own root.
    package let certificatePath: String
    /// The private key in PEM.
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
    /// Speaks TLS to servers that show this certificate.
    package mutating func trust(_ certificate: TestCertificate) {
        var settings = tls ?? Self.standardTLS
        settings.trustRoots = .file(certificate.certificatePath)
        tls = settings
    }
}

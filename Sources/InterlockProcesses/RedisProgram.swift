internal import Subprocess

/// The `redis-server` that the tests use: the first one in PATH. `make test REDIS_SERVER=/path/to/server` selects
/// another.
package struct RedisProgram: Sendable, CustomStringConvertible {
    /// The name of the product: `Redis` or `Valkey`.
    package let product: String
    package let version: String
    package let speaksTLS: Bool

    package var description: String { "\(product) \(version)" }

    /// The program that is installed on this host.
    /// - Throws: `RedisServerError` if there is none, or if it reports no version.
    package static var current: RedisProgram {
        get async throws {
            // "Redis server v=7.0.15 sha=…", "Valkey server v=9.1.2 sha=…"
            let words = try await output("--version").split(separator: " ")
            guard let product = words.first, let version = words.first(where: { $0.hasPrefix("v=") })?.dropFirst(2) else {
                throw RedisServerError(
                    reason: "redis-server --version printed no version", log: words.joined(separator: " "))
            }
            // A build with TLS reports that the certificate is missing. A build without TLS does not know the option.
            let errorOutput = try await output("--port", "0", "--tls-port", "1")
            return RedisProgram(
                product: String(product), version: String(version), speaksTLS: errorOutput.contains("tls-cert-file"))
        }
    }

    private static func output(_ arguments: String...) async throws -> String {
        let result = try await run(
            .name("redis-server"), arguments: Arguments(arguments), output: .string(limit: 1 << 16),
            error: .string(limit: 1 << 16))
        return result.standardOutput + result.standardError
    }
}

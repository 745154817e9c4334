import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore
import Logging

/// The options that select a sidecar and secure the connection to it.
struct SidecarOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The sidecar's RESP address: HOST:PORT, redis://HOST:PORT, rediss://HOST:PORT or unix:PATH. Defaults to \
            INTERLOCK_SIDECAR, then to \(SidecarAddress.standard). INTERLOCK_API_KEY holds the API key.
            """,
            valueName: "address"))
    // A plain string, because the parser's own error would repeat an API key that the user passed here by mistake.
    var sidecar: String?

    @Option(
        help: ArgumentHelp(
            """
            The CA certificate that signed the sidecar's certificate, in PEM. Defaults to INTERLOCK_CA, then to the CAs that \
            this system trusts.
            """,
            valueName: "file"),
        completion: .file())
    var ca: String?

    @Flag(
        help: """
            Allow sending the API key to another host without TLS, as on a private network. The same as \
            INTERLOCK_ALLOW_PLAINTEXT=1.
            """)
    var allowPlaintext = false

    /// Connects, runs `body`, and closes the connection even if `body` throws.
    /// - Parameters:
    ///   - purpose: the name of the request for messages, for example `lock acquire orders`.
    ///   - configure: a closure that changes the client's configuration.
    ///   - body: a closure that makes the calls.
    /// - Throws: `CommandFailure` if no sidecar answers, if it rejects the login, or if a call of `body` fails;
    ///   otherwise any error that `body` throws.
    func withClient<Result>(
        _ purpose: String, configured configure: (inout SidecarClientConfiguration) -> Void = { _ in },
        _ body: (SidecarClient) async throws -> Result
    ) async throws -> Result {
        var configuration = try configuration()
        configure(&configuration)
        // This program reports failures itself, so the client logs nothing.
        let client = SidecarClient(configuration, logger: Logger(label: "interlock") { _ in SwiftLogNoOpLogHandler() })
        do {
            return try await withCleanup {
                do {
                    try await client.connect()
                } catch let error as InterlockError {
                    throw CommandFailure(error, connectingTo: configuration.address)
                }
                return try await body(client)
            } finally: {
                await client.close()
            }
        } catch let error as InterlockError {
            throw CommandFailure(error, performing: purpose, at: configuration.address)
        }
    }

    /// Returns the configuration of the client, from the options and the environment.
    /// - Throws: `CommandFailure` if an option or variable is invalid, or if the API key would cross the network
    ///   unencrypted.
    private func configuration() throws(CommandFailure) -> SidecarClientConfiguration {
        let environment = ProcessEnvironment.variables
        let address =
            if let sidecar { try SidecarAddress.read(sidecar, from: "--sidecar") } else { try Self.address(from: environment) }
        var configuration = SidecarClientConfiguration(
            address: address, apiKey: Self.value(of: "INTERLOCK_API_KEY", in: environment))
        let allowsPlaintext = allowPlaintext || Self.value(of: "INTERLOCK_ALLOW_PLAINTEXT", in: environment) == "1"
        guard configuration.apiKey == nil || !address.isUnencryptedRemote || allowsPlaintext else {
            throw CommandFailure(
                "the API key would cross the network to \(address) unencrypted; use rediss://\(address), or "
                    + "--allow-plaintext on a private network",
                .usage)
        }
        if case .tls = address, let authority = ca ?? Self.value(of: "INTERLOCK_CA", in: environment) {
            do {
                try configuration.trustOnly(authoritiesIn: authority)
            } catch {
                throw CommandFailure("--ca \(error.message)", .usage)
            }
        }
        return configuration
    }

    private static func address(from environment: [String: String]) throws(CommandFailure) -> SidecarAddress {
        guard let address = value(of: "INTERLOCK_SIDECAR", in: environment) else { return .standard }
        return try SidecarAddress.read(address, from: "INTERLOCK_SIDECAR")
    }

    /// Returns a variable's value. An empty variable counts as unset, as in `interlock serve`.
    private static func value(of variable: String, in environment: [String: String]) -> String? {
        environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }
}

extension CompletionKind {
    /// Shell completion for a lock's name: the locks that the sidecar in INTERLOCK_SIDECAR lists as held.
    static let lockNames = names(listedBy: "lock list")
    /// Shell completion for a service's name: the services of the sidecar in INTERLOCK_SIDECAR.
    static let serviceNames = names(listedBy: "breaker list")

    /// Completes from the first column of a listing. Offers nothing if no sidecar answers.
    private static func names(listedBy command: String) -> CompletionKind {
        .shellCommand("interlock \(command) 2>/dev/null | awk 'NR > 1 { print $1 }'")
    }
}

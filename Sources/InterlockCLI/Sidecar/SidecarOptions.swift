import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

/// How a command finds its sidecar.
struct SidecarOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The sidecar's RESP door: HOST:PORT, redis://HOST:PORT, rediss://HOST:PORT or unix:PATH.",
            discussion: "Otherwise INTERLOCK_SIDECAR, otherwise \(SidecarAddress.standard). INTERLOCK_API_KEY holds the API key.",
            valueName: "address"))
    // A text: a parser's error would repeat a key that was put into it.
    var sidecar: String?

    @Option(
        help: ArgumentHelp(
            "The authority that signed the sidecar's certificate, in PEM.",
            discussion: "Otherwise INTERLOCK_CA, otherwise those that this system trusts.", valueName: "file"),
        completion: .file())
    var ca: String?

    @Flag(
        help: ArgumentHelp(
            "Send the API key to another host without TLS.",
            discussion: "Or INTERLOCK_ALLOW_PLAINTEXT=1. For private networks."))
    var allowPlaintext = false

    /// Connects, runs `body`, and closes the connection whatever happens.
    /// - Parameters:
    ///   - purpose: what is asked for, for messages: `lock acquire orders`.
    ///   - configure: changes the client's configuration.
    ///   - body: the calls.
    /// - Throws: `Failure` when no sidecar answers, when it refuses the login, and when a call of `body` fails; whatever else
    ///   `body` throws.
    func withClient<Result>(
        _ purpose: String, configured configure: (inout SidecarClientConfiguration) -> Void = { _ in },
        _ body: (SidecarClient) async throws -> Result
    ) async throws -> Result {
        var configuration = try configuration()
        configure(&configuration)
        let client = SidecarClient(configuration)
        do {
            return try await attempt {
                do {
                    try await client.connect()
                } catch let error as InterlockError {
                    throw Failure(error, connectingTo: configuration.address)
                }
                return try await body(client)
            } finally: {
                await client.close()
            }
        } catch let error as InterlockError {
            throw Failure(error, asking: purpose, at: configuration.address)
        }
    }

    /// Where the sidecar is, and how to log in to it.
    /// - Throws: `Failure` when the environment names it in a way that cannot be understood.
    private func configuration() throws(Failure) -> SidecarClientConfiguration {
        let environment = ProcessEnvironment.variables
        let address =
            if let sidecar { try SidecarAddress.read(sidecar, from: "--sidecar") } else { try Self.address(from: environment) }
        var configuration = SidecarClientConfiguration(
            address: address, apiKey: Self.value(of: "INTERLOCK_API_KEY", in: environment))
        let allowsPlaintext = allowPlaintext || Self.value(of: "INTERLOCK_ALLOW_PLAINTEXT", in: environment) == "1"
        guard configuration.apiKey == nil || !address.isOpenToOthers || allowsPlaintext else {
            throw Failure(
                "the API key would cross the network to \(address) unencrypted; name the sidecar as rediss://\(address), or say "
                    + "--allow-plaintext where the network is private",
                .usage)
        }
        if case .tls = address, let authority = ca ?? Self.value(of: "INTERLOCK_CA", in: environment) {
            do {
                try configuration.trustOnly(authoritiesIn: authority)
            } catch {
                throw Failure("--ca \(error.message)", .usage)
            }
        }
        return configuration
    }

    private static func address(from environment: [String: String]) throws(Failure) -> SidecarAddress {
        guard let text = value(of: "INTERLOCK_SIDECAR", in: environment) else { return .standard }
        return try SidecarAddress.read(text, from: "INTERLOCK_SIDECAR")
    }

    /// A variable that is set but empty counts as not set, as it does for `interlock serve`.
    private static func value(of variable: String, in environment: [String: String]) -> String? {
        environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }
}

extension CompletionKind {
    /// The locks that are held, as far as the sidecar in INTERLOCK_SIDECAR tells: what shells offer for a lock's name.
    static let lockNames = names(listedBy: "lock list")
    /// The services that the sidecar in INTERLOCK_SIDECAR guards.
    static let serviceNames = names(listedBy: "breaker list")

    /// The first column of a listing. None when no sidecar answers.
    private static func names(listedBy command: String) -> CompletionKind {
        .shellCommand("interlock \(command) 2>/dev/null | awk 'NR > 1 { print $1 }'")
    }
}

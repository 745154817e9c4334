import ArgumentParser
import Hiredis
import NIOSSL

/// How a command finds its sidecar.
struct SidecarOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The sidecar's RESP door: HOST:PORT, rediss://HOST:PORT or unix:PATH.",
            discussion: "Otherwise INTERLOCK_SIDECAR, otherwise \(SidecarAddress.standard). INTERLOCK_API_KEY holds the API key.",
            valueName: "address"))
    var sidecar: SidecarAddress?

    @Option(
        help: ArgumentHelp(
            "The authority that vouches for the sidecar's certificate, in PEM.",
            discussion: "Otherwise INTERLOCK_CA, otherwise those that this system trusts.", valueName: "file"),
        completion: .file())
    var ca: String?

    @Flag(
        help: ArgumentHelp(
            "Show the API key to another host without TLS.",
            discussion: "Or INTERLOCK_ALLOW_PLAINTEXT=1. For networks that are private."))
    var allowPlaintext = false

    /// How long connecting and logging in may take.
    private static let connectTimeout = Duration.seconds(5)

    /// Where the sidecar is, and how to log in to it.
    /// - Throws: `Failure` when the environment names it in a way that cannot be understood.
    func target() throws(Failure) -> SidecarTarget {
        let environment = ProcessEnvironment.variables
        let address = if let sidecar { sidecar } else { try Self.address(from: environment) }
        var configuration = RedisConfiguration(address: address.redisAddress)
        configuration.connectTimeout = Self.connectTimeout
        configuration.password = Self.value(of: "INTERLOCK_API_KEY", in: environment)
        let allowsPlaintext = allowPlaintext || Self.value(of: "INTERLOCK_ALLOW_PLAINTEXT", in: environment) == "1"
        guard configuration.password == nil || !address.isOpenToOthers || allowsPlaintext else {
            throw Failure(
                "the API key would cross the network to \(address) unencrypted; name the sidecar as rediss://\(address), or say "
                    + "--allow-plaintext where the network is private",
                exitCode: .usage)
        }
        if case .secured = address {
            configuration.tls = try Self.tls(authority: ca ?? Self.value(of: "INTERLOCK_CA", in: environment))
        }
        return SidecarTarget(address: address, configuration: configuration)
    }

    private static func address(from environment: [String: String]) throws(Failure) -> SidecarAddress {
        guard let text = value(of: "INTERLOCK_SIDECAR", in: environment) else { return .standard }
        guard let address = SidecarAddress(argument: text) else {
            throw Failure(
                "INTERLOCK_SIDECAR: expected HOST:PORT such as \(SidecarAddress.standard), rediss://HOST:PORT or unix:PATH; got "
                    + "\"\(text)\"",
                exitCode: .usage)
        }
        return address
    }

    private static func tls(authority: String?) throws(Failure) -> TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        guard let authority else { return tls }
        do {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(authority))
        } catch {
            throw Failure(
                "--ca \(authority): expected certificates in PEM; there are none, or they cannot be read", exitCode: .usage)
        }
        return tls
    }

    /// A variable that is set but empty counts as not set, as it does for `interlock serve`.
    private static func value(of variable: String, in environment: [String: String]) -> String? {
        environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }
}

/// A sidecar to talk to.
struct SidecarTarget: Sendable {
    /// For messages.
    var address: SidecarAddress
    var configuration: RedisConfiguration
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

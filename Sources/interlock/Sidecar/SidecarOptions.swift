import ArgumentParser
import Hiredis

/// How a command finds its sidecar.
struct SidecarOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The sidecar's RESP door: HOST:PORT or unix:PATH.",
            discussion: "Otherwise INTERLOCK_SIDECAR, otherwise \(SidecarAddress.standard). INTERLOCK_API_KEY holds the API key.",
            valueName: "address"))
    var sidecar: SidecarAddress?

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
        return SidecarTarget(address: address, configuration: configuration)
    }

    private static func address(from environment: [String: String]) throws(Failure) -> SidecarAddress {
        guard let text = value(of: "INTERLOCK_SIDECAR", in: environment) else { return .standard }
        guard let address = SidecarAddress(argument: text) else {
            throw Failure(
                "INTERLOCK_SIDECAR: expected HOST:PORT such as \(SidecarAddress.standard), or unix:PATH; got \"\(text)\"",
                exitCode: .usage)
        }
        return address
    }

    /// A variable that is set but empty counts as not set, as it does for `interlock serve`.
    private static func value(of variable: String, in environment: [String: String]) -> String? {
        environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }
}

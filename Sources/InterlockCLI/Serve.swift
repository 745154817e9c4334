import ArgumentParser
import CoreMetrics
import InterlockCommandLine
import InterlockOutput
import InterlockSidecar
import SidecarSettings
import SidecarTelemetry
import Logging

/// `interlock serve`: runs a sidecar until a signal stops it.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run a sidecar.",
        usage: "interlock serve [<options>]",
        discussion: """
            If no Redis is configured, the sidecar starts a private redis-server on a Unix socket in its data directory, \
            which serves this machine only. Environment variables (INTERLOCK_REDIS_URL, INTERLOCK_RESP, INTERLOCK_HTTP, \
            INTERLOCK_UNIX, INTERLOCK_UNIX_MODE, INTERLOCK_UNIX_GROUP, INTERLOCK_DATA_DIR, INTERLOCK_LOG_LEVEL) override the \
            file, and options override both. SIGHUP reloads services, API keys and the certificate; SIGTERM shuts the \
            sidecar down within 10 seconds.

            EXAMPLES
              interlock serve
              interlock serve --config interlock.yaml
              interlock serve --redis redis://10.0.0.5:6379 --resp 127.0.0.1:7379 \\
                  --unix /run/interlock.sock
            """
    )

    @Option(help: ArgumentHelp("The configuration file, in YAML.", valueName: "file"), completion: .file())
    var config: String?

    @Option(help: ArgumentHelp("The URL of the fleet's Redis: redis://, rediss:// or unix://.", valueName: "url"))
    var redis: String?

    @Option(help: ArgumentHelp("The address of the RESP API.", valueName: "host:port"))
    var resp: String?

    @Option(help: ArgumentHelp("The address of the HTTP API.", valueName: "host:port"))
    var http: String?

    @Option(help: ArgumentHelp("A Unix socket on which to serve the RESP API as well.", valueName: "path"), completion: .file())
    var unix: String?

    @Option(help: ArgumentHelp("The mode of that socket: 0600, 0660 or 0666.", valueName: "mode"))
    var unixMode: String?

    @Option(help: ArgumentHelp("The group of that socket.", valueName: "group"))
    var unixGroup: String?

    @Option(help: ArgumentHelp("The data directory of the private Redis.", valueName: "dir"), completion: .directory)
    var dataDir: String?

    func run() async throws {
        let environment = ProcessEnvironment.variables
        let configuration: SidecarConfiguration
        do throws(ConfigurationError) {
            configuration = try read(environment: environment)
        } catch {
            throw CommandFailure(error)
        }
        let metrics = PrometheusRegistry()
        MetricsSystem.bootstrap(metrics)
        let log = LineLogHandler(configuration.log)
        LoggingSystem.bootstrap { _ in log }
        let logger = Logger(label: "interlock")
        let warnings = configuration.warnings + (config == nil ? [] : [configuration.embeddedRedisWarning].compactMap { $0 })
        for warning in warnings { logger.log(.configurationWarning, ["warning": warning]) }
        do {
            let sidecar = try Sidecar(
                configuration: configuration, file: config, environment: environment, metrics: metrics, logger: logger
            ) { [self] in try read(environment: environment) }
            try await sidecar.run { addresses in Self.announce(addresses, configuration) }
        } catch {
            throw CommandFailure("\(error)", .unavailable)
        }
    }

    private func read(environment: [String: String]) throws(ConfigurationError) -> SidecarConfiguration {
        try SidecarConfiguration.load(
            file: config, environment: environment,
            flags: SidecarConfiguration.Overrides(
                redisURL: redis, resp: resp, http: http, unix: unix, unixMode: unixMode, unixGroup: unixGroup,
                dataDirectory: dataDir))
    }

    /// Prints the addresses of the APIs and the first steps to standard output.
    private static func announce(_ addresses: Sidecar.Addresses, _ configuration: SidecarConfiguration) {
        LineWriter.standardOutput.add(ReadyBanner(addresses, configuration).text)
    }
}

extension CommandFailure {
    /// Lists the mistakes in a configuration, each on a line with the program's prefix.
    init(_ error: ConfigurationError) {
        self.init(error.problems.map(\.description).joined(separator: "\ninterlock: "), .usage)
    }
}

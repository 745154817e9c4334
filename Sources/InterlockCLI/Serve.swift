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
        discussion: """
            Without a Redis named anywhere it starts a private redis-server on a Unix socket in its data folder, for one \
            machine. The environment (INTERLOCK_REDIS_URL, INTERLOCK_RESP, INTERLOCK_HTTP, INTERLOCK_UNIX, \
            INTERLOCK_UNIX_MODE, INTERLOCK_UNIX_GROUP, INTERLOCK_DATA_DIR, INTERLOCK_LOG_LEVEL) overrides the file; an option overrides both. SIGHUP reloads \
            services, API keys and certificate; SIGTERM stops it within 10 seconds.

            EXAMPLES
              interlock serve
              interlock serve --config interlock.yaml
              interlock serve --redis redis://10.0.0.5:6379 --resp 127.0.0.1:7379 --unix /run/interlock.sock
            """
    )

    @Option(help: ArgumentHelp("Configuration in YAML.", valueName: "file"), completion: .file())
    var config: String?

    @Option(help: ArgumentHelp("redis://, rediss:// or unix:// of the Redis that the fleet shares.", valueName: "url"))
    var redis: String?

    @Option(help: ArgumentHelp("Where the RESP door listens.", valueName: "host:port"))
    var resp: String?

    @Option(help: ArgumentHelp("Where the HTTP door listens.", valueName: "host:port"))
    var http: String?

    @Option(help: ArgumentHelp("A Unix socket for the RESP door as well.", valueName: "path"), completion: .file())
    var unix: String?

    @Option(help: ArgumentHelp("Who may use that socket: 0600, 0660, 0666.", valueName: "mode"))
    var unixMode: String?

    @Option(help: ArgumentHelp("The group of that socket.", valueName: "group"))
    var unixGroup: String?

    @Option(help: ArgumentHelp("Folder of the private Redis.", valueName: "dir"), completion: .directory)
    var dataDir: String?

    func run() async throws {
        let environment = ProcessEnvironment.variables
        let configuration: SidecarConfiguration
        do throws(ConfigurationError) {
            configuration = try read(environment: environment)
        } catch {
            throw Failure(error.description, .usage)
        }
        let metrics = PrometheusRegistry()
        MetricsSystem.bootstrap(metrics)
        let log = LineLogHandler(configuration.log)
        LoggingSystem.bootstrap { _ in log }
        let logger = Logger(label: "interlock")
        let warnings = configuration.warnings + (config == nil ? [] : [configuration.warningOfOwnRedis].compactMap { $0 })
        for warning in warnings { logger.log(.configurationDoubtful, ["warning": warning]) }
        do {
            let sidecar = try Sidecar(
                configuration: configuration, file: config, environment: environment, metrics: metrics, logger: logger
            ) { [self] in try read(environment: environment) }
            try await sidecar.run { addresses in Self.announce(addresses, configuration) }
        } catch {
            throw Failure("\(error)", .unavailable)
        }
    }

    private func read(environment: [String: String]) throws(ConfigurationError) -> SidecarConfiguration {
        try SidecarConfiguration.load(
            file: config, environment: environment,
            flags: SidecarConfiguration.Overrides(
                redisURL: redis, resp: resp, http: http, unix: unix, unixMode: unixMode, unixGroup: unixGroup,
                dataDirectory: dataDir))
    }

    /// Prints the addresses and first steps to standard output.
    private static func announce(_ addresses: Sidecar.Addresses, _ configuration: SidecarConfiguration) {
        LineWriter.standardOutput.add(ReadyBanner(addresses, configuration).text)
    }
}

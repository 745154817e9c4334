internal import CoreMetrics
internal import Glibc
package import Interlock
internal import InterlockCore
package import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix
internal import RedisClient
internal import ServiceLifecycle
internal import SidecarConsole
internal import SidecarListeners
package import SidecarSettings
package import SidecarTelemetry
internal import UnixSignals

/// A complete sidecar: the coordinator, the listeners, and an embedded Redis unless another is configured, in one
/// service group.
package struct Sidecar: Sendable {
    /// The addresses of a sidecar that is ready.
    package struct Addresses: Sendable {
        package var respPort: Int
        package var httpPort: Int
        /// The port of the gRPC API; `nil` if there is no gRPC listener.
        package var grpcPort: Int?
        /// The socket of the embedded Redis, for `redis-cli -s`; `nil` if another Redis is configured.
        package var embeddedRedis: String?
    }

    private let configuration: SidecarConfiguration
    private let logger: Logger
    private let embeddedRedis: EmbeddedRedis?
    package let coordinator: Coordinator
    private let metrics: PrometheusRegistry
    private let certificate: ListenerCertificate?
    private let configurationFile: String?
    private let reload: (@Sendable () throws -> SidecarConfiguration)?
    /// The notifier of the service manager; `nil` if there is no service manager.
    private let notifier: SystemdNotifier?

    /// Prepares all parts without opening a listener.
    /// - Parameters:
    ///   - file: the file of the configuration, for the log; `nil` if it was not read from a file.
    ///   - metrics: the registry of the coordinator's metrics, which the caller has bootstrapped.
    ///   - reload: reads the configuration again on SIGHUP; `nil` if SIGHUP changes nothing.
    /// - Throws: `SidecarError` if the data directory, the certificate or the Redis URL cannot be used.
    package init(
        configuration: SidecarConfiguration, file: String? = nil, environment: [String: String], metrics: PrometheusRegistry,
        logger: Logger,
        reload: (@Sendable () throws -> SidecarConfiguration)? = nil
    ) throws(SidecarError) {
        self.configuration = configuration
        self.logger = logger
        self.metrics = metrics
        configurationFile = file
        self.reload = reload
        certificate = if let tls = configuration.listen.tls { try ListenerCertificate(tls) } else { nil }
        let url: String
        if let configuredURL = configuration.redis.url {
            embeddedRedis = nil
            url = configuredURL
        } else {
            let directory =
                if let configuredDirectory = configuration.dataDirectory { configuredDirectory } else {
                    try DataDirectory.standardPath(environment: environment)
                }
            let server = try EmbeddedRedis(dataDirectory: directory, logger: logger)
            embeddedRedis = server
            url = "unix://\(server.socketPath)"
        }
        var coordinatorConfiguration = try configuration.coordinatorConfiguration(redisURL: url)
        coordinatorConfiguration.hasEmbeddedRedis = embeddedRedis != nil
        coordinator = Coordinator(
            configuration: coordinatorConfiguration,
            eventLoop: MultiThreadedEventLoopGroup(numberOfThreads: 1).next(), logger: logger)
        notifier = SystemdNotifier(environment: environment, coordinator: coordinator, logger: logger)
    }

    /// Serves until SIGTERM or SIGINT, then shuts down within 10 seconds.
    /// - Parameter onReady: called once all listeners are open and Redis is connected.
    package func run(onReady: @escaping @Sendable (Addresses) -> Void = { _ in }) async throws {
        let clock = ContinuousClock()
        let startedAt = clock.now
        logger.log(.started, startFields)
        let signals = TerminationSignals(await UnixSignalsSequence(trapping: .sigterm, .sigint))
        func endFields(_ reason: String) -> [String: String] {
            ["reason": reason, "ran": "\((clock.now - startedAt).wholeMilliseconds / 1000)s"]
        }
        do {
            try await serve(until: signals, onReady: onReady)
            logger.log(.stopped, endFields(signals.firstSignalName ?? "stopped by the program"))
        } catch {
            logger.log(.failed, endFields("\(error)"))
            throw error
        }
    }

    /// The log fields that identify the sidecar and its main settings.
    private var startFields: [String: String] {
        var fields = [
            "version": SidecarVersion.current, "id": coordinator.id, "config": configurationFile ?? "none",
            "redis": coordinator.redisName, "prefix": configuration.redis.prefix,
            "resp": "\(configuration.listen.resp)", "http": "\(configuration.listen.http)",
        ]
        fields["grpc"] = configuration.listen.grpc.map { "\($0)" }
        fields["unix"] = configuration.listen.unix
        return fields
    }

    private func serve(until signals: TerminationSignals, onReady: @escaping @Sendable (Addresses) -> Void) async throws {
        checkOpenFileLimit()
        let access = AccessControl(keys: configuration.keys)
        let readiness = Readiness(
            embeddedRedis: embeddedRedis?.socketPath, hasGRPC: configuration.listen.grpc != nil, coordinator: coordinator,
            onOpen: { [notifier] in notifier?.listenersOpened() },
            onReady: { [notifier] addresses in
                notifier?.redisConnected()
                onReady(addresses)
            })
        var services: [any Service] = []
        if let embeddedRedis { services.append(embeddedRedis) }
        services.append(coordinator)
        let monitor = OutageMonitor(
            services: configuration.services, coordinator: coordinator, locks: configuration.locks,
            eventLoopGroup: coordinator.eventLoop, reporter: OutageReporter(to: coordinator), logger: logger)
        services.append(monitor)
        let probe: ProbeReadings.Lookup = { monitor.reading(ofService: $0) }
        let scheduler = try await SliceScheduler.shared(by: coordinator)
        let live = try await LiveHub.start(for: coordinator, probe: probe, scheduler: scheduler)
        let tracer = try await tracer(&services)
        let setup = ListenerSetup(
            coordinator: coordinator, access: access, certificate: certificate, listen: configuration.listen,
            metrics: metrics, logger: logger, probe: probe, liveView: live.source, tracer: tracer, scheduler: scheduler)
        services.append(RESPListener(setup: setup) { readiness.respListenerOpened(port: $0) })
        services.append(
            try await coordinator.eventLoop.submit {
                HTTPService(setup, live: live.value) { readiness.httpListenerOpened(port: $0) }
            }.get())
        if let endpoint = configuration.listen.grpc {
            services.append(GRPCListener(setup: setup, endpoint: endpoint) { readiness.grpcListenerOpened(port: $0) })
        }
        services.append(readiness)
        if let reload {
            services.append(
                ConfigurationReloader(
                    startConfiguration: configuration, coordinator: coordinator, monitor: monitor, access: access,
                    certificate: certificate,
                    notifier: notifier, logger: logger,
                    // SIGHUP is trapped before the listeners open, because from then on a service manager may send it,
                    // and it would otherwise kill the process.
                    requests: await UnixSignalsSequence(trapping: .sighup), read: reload))
        }
        // The group shuts down in reverse order, so the notifier is the first to be notified.
        if let notifier { services.append(notifier) }
        defer { notifier?.end() }
        var groupConfiguration = ServiceGroupConfiguration(
            services: services.map {
                .init(service: $0, successTerminationBehavior: .ignore, failureTerminationBehavior: .gracefullyShutdownGroup)
            } + [.init(service: signals, successTerminationBehavior: .gracefullyShutdownGroup)],
            logger: logger.atLeast(.warning))
        groupConfiguration.maximumGracefulShutdownDuration = .seconds(10)
        try await ServiceGroup(configuration: groupConfiguration).run()
    }

    /// Creates the tracer, and adds the exporter of its spans to the services.
    /// - Returns: `nil` if calls are not traced.
    private func tracer(_ services: inout [any Service]) async throws -> NIOLoopBound<Tracer>? {
        guard let settings = configuration.tracing else { return nil }
        let queue = SpanQueue()
        // The group shuts down in reverse order, so its first service shuts down last.
        services.insert(
            try SpanExporter(
                settings, queue: queue,
                resource: [
                    "service.name": "interlock", "service.instance.id": coordinator.id,
                    "service.version": SidecarVersion.current, "host.name": InterlockConfiguration.hostName,
                ], logger: logger, retryAfter: { RetryAfter.milliseconds($0, now: WallClock.system.milliseconds() / 1000) }),
            at: 0)
        let eventLoop = coordinator.eventLoop
        return try await eventLoop.submit { NIOLoopBound(Tracer(settings, queue: queue), eventLoop: eventLoop) }.get()
    }

    /// The number of file descriptors for everything except clients and their calls, such as connections to Redis and
    /// files.
    private static let otherOpenFiles = 200

    /// Raises the open-file limit, and logs if it is too low for the configured number of connections.
    private func checkOpenFileLimit() {
        // Each listener accepts up to `max_connections`, and the proxy may open as many connections to upstreams.
        let listenerCount = configuration.listen.grpc == nil ? 2 : 3
        let hasProxiedService = configuration.services.contains { $0.upstream != nil }
        let connectionFactor = hasProxiedService ? listenerCount + 1 : listenerCount
        let neededCount = connectionFactor * configuration.listen.maximumConnections + Self.otherOpenFiles
        guard let limit = OpenFileLimit.raiseToHardLimit(), limit < neededCount else { return }
        logger.log(.openFiles, ["bound": "\(limit)", "needed": "\(neededCount)"])
    }
}

/// Ends the sidecar at the first signal, and records the signal's name.
private final class TerminationSignals: Service {
    private let signals: UnixSignalsSequence
    private let storedName = NIOLockedValueBox<String?>(nil)

    init(_ signals: UnixSignalsSequence) {
        self.signals = signals
    }

    /// The name of the first signal; `nil` if none has arrived.
    var firstSignalName: String? { storedName.withLockedValue { $0 } }

    /// Ends at the first signal, or when the sidecar shuts down for another reason.
    func run() async throws {
        for await signal in signals.cancelOnGracefulShutdown() {
            storedName.withLockedValue { $0 = signal == .sigterm ? "SIGTERM" : "SIGINT" }
            return
        }
    }
}

extension Logger {
    /// Returns a logger that omits the progress messages of libraries, which contain names of this program's types.
    func atLeast(_ level: Level) -> Logger {
        var logger = self
        logger.logLevel = max(level, logLevel)
        return logger
    }
}

extension SidecarConfiguration {
    /// Returns the coordinator's part of the configuration.
    /// - Throws: `SidecarError` if the Redis URL cannot be used.
    package func coordinatorConfiguration(redisURL: String) throws(SidecarError) -> InterlockConfiguration {
        InterlockConfiguration(
            redis: try redis.server(redisURL), quorum: try quorumServers(), prefix: redis.prefix, locks: locks,
            services: services, domains: domains,
            fleetSize: fleetSize,
            host: InterlockConfiguration.hostName, version: SidecarVersion.current)
    }
}

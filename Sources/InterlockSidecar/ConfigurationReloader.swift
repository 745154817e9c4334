internal import Interlock
internal import Logging
internal import ServiceLifecycle
internal import UnixSignals

/// Reads the configuration again on SIGHUP: services, API keys, the listeners' certificate, and the files of passwords and certificates
/// that connections to Redis are made with. One with mistakes changes nothing; the log names what takes a restart to change.
struct ConfigurationReloader: Service {
    /// What this process was started with.
    let started: SidecarConfiguration
    let coordinator: Coordinator
    let monitor: OutageMonitor
    let access: AccessControl
    let certificate: DoorCertificate?
    /// Told of each reload.
    let notifier: ServiceNotifier?
    let logger: Logger
    /// SIGHUP; trapped by whoever makes this.
    let requests: UnixSignalsSequence
    let read: @Sendable () throws -> SidecarConfiguration

    func run() async throws {
        for await _ in requests.cancelOnGracefulShutdown() {
            notifier?.reloadBegins()
            do {
                let configuration = try read()
                for warning in configuration.warnings { logger.log(.configurationDoubtful, ["warning": warning]) }
                // What may be refused comes before anything is taken over.
                try started.refuseToServe(keys: configuration.keys)
                try configuration.services.check()
                let servers = try started.redis.url.map { try started.coordinatorConfiguration(redisURL: $0) }
                if let tls = configuration.listen.tls { try certificate?.reload(tls) }
                access.replace(keys: configuration.keys)
                if let servers { await coordinator.reload(secretsOf: servers) }
                try await coordinator.reload(services: configuration.services)
                await coordinator.reload(domains: configuration.domains.definitions)
                monitor.reload(services: configuration.services)
                let left = configuration.changesOfStart(since: started)
                if !left.isEmpty {
                    logger.log(.restartNeeded, ["not_applied": left.joined(separator: ", ")])
                }
                notifier?.reloadEnded(failure: nil)
            } catch {
                logger.log(.configurationRefused, ["error": "\(error)"])
                notifier?.reloadEnded(failure: "\(error)")
            }
        }
    }
}

extension SidecarConfiguration {
    /// The listeners stay as they were opened: they must not be reachable from other hosts without a key, whatever the file says of
    /// them now.
    /// - Throws: `ConfigurationError`.
    func refuseToServe(keys: [APIKey]) throws(ConfigurationError) {
        var running = self
        running.keys = keys
        let findings = ConfigurationFindings(fileName: "listeners that are open", readsSecrets: true)
        running.refuseUnguardedListeners(findings)
        guard findings.problems.isEmpty else { throw ConfigurationError(problems: findings.problemsInOrder) }
    }

    /// What differs from `other` and is looked at only at start, as it is called in the file.
    func changesOfStart(since other: SidecarConfiguration) -> [String] {
        var changes: [String] = []
        func note(_ name: String, _ hasChanged: Bool) {
            if hasChanged { changes.append(name) }
        }
        note("redis", redis != other.redis)
        note("listen.resp", listen.resp != other.listen.resp)
        note("listen.http", listen.http != other.listen.http)
        note("listen.grpc", listen.grpc != other.listen.grpc)
        note("listen.unix", listen.unix != other.listen.unix)
        note("listen.unix_mode", listen.unixMode != other.listen.unixMode)
        note("listen.unix_group", listen.unixGroup != other.listen.unixGroup)
        note("listen.hosts", listen.hosts != other.listen.hosts)
        // Another certificate is shown at once.
        note("listen.tls", (listen.tls == nil) != (other.listen.tls == nil))
        note("listen.max_connections", listen.maximumConnections != other.listen.maximumConnections)
        note("log", log != other.log)
        note("rls.timeout", domains.timeout != other.domains.timeout)
        note("tracing", tracing != other.tracing)
        note("locks", locks != other.locks)
        note("fleet_size", fleetSize != other.fleetSize)
        note("the data folder", dataDirectory != other.dataDirectory)
        return changes
    }
}

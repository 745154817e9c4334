internal import Interlock
internal import Logging
internal import ServiceLifecycle
internal import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry
internal import UnixSignals

/// Reloads the configuration on SIGHUP: services, domains, API keys, the listeners' certificate, and the files with
/// passwords and certificates for Redis. Applies nothing if the new configuration has mistakes or lacks the
/// authentication that the current one requires. Logs the names of removals and of changes that need a restart.
struct ConfigurationReloader: Service {
    /// The configuration that this process was started with.
    let startConfiguration: SidecarConfiguration
    let coordinator: Coordinator
    let monitor: OutageMonitor
    let access: AccessControl
    let certificate: ListenerCertificate?
    /// The service manager's notifier, which reports each reload.
    let notifier: SystemdNotifier?
    let logger: Logger
    /// The SIGHUP signals, which the caller must trap.
    let requests: UnixSignalsSequence
    let read: @Sendable () throws -> SidecarConfiguration

    func run() async throws {
        var current = startConfiguration
        for await _ in requests.cancelOnGracefulShutdown() {
            notifier?.reloadBegan()
            do {
                let configuration = try read()
                for warning in configuration.warnings { logger.log(.configurationWarning, ["warning": warning]) }
                // Check everything before the first change, so that a rejected configuration changes nothing.
                try configuration.rejectLosses(since: current)
                try startConfiguration.checkListenersAreGuarded(keys: configuration.keys)
                try configuration.services.check()
                let coordinatorConfiguration = try startConfiguration.redis.url.map {
                    try startConfiguration.coordinatorConfiguration(redisURL: $0)
                }
                try reloadCertificate(configuration)
                access.replace(keys: configuration.keys)
                if let coordinatorConfiguration { await coordinator.reload(secretsOf: coordinatorConfiguration) }
                try await coordinator.reload(services: configuration.services)
                await coordinator.reload(domains: configuration.domains.definitions)
                monitor.reload(services: configuration.services)
                let unapplied = configuration.changesNeedingRestart(since: startConfiguration)
                if !unapplied.isEmpty {
                    logger.log(.restartNeeded, ["not_applied": unapplied.joined(separator: ", ")])
                }
                let removed = configuration.removals(since: current)
                if !removed.isEmpty { logger.log(.configurationRemoved, removed) }
                current = configuration
                notifier?.reloadEnded(failure: nil)
            } catch {
                logger.log(.configurationRefused, ["error": "\(error)"])
                notifier?.reloadEnded(failure: "\(error)")
            }
        }
    }

    private func reloadCertificate(_ configuration: SidecarConfiguration) throws {
        guard let tls = configuration.listen.tls, let certificate else { return }
        let lostNames = certificate.namesLost(with: tls)
        try certificate.reload(tls)
        guard !lostNames.isEmpty else { return }
        let names = lostNames.joined(separator: ", ")
        logger.log(
            .configurationWarning, ["warning": "listen.tls.certificate no longer covers \(names); the previous one did"])
    }
}

extension SidecarConfiguration {
    /// Rejects a configuration that looks truncated, because it lacks all keys, the authorities for client
    /// certificates, or all content.
    /// - Parameter other: the current configuration.
    /// - Throws: `ConfigurationError` that names what is missing.
    func rejectLosses(since other: SidecarConfiguration) throws(ConfigurationError) {
        let findings = ConfigurationFindings(fileName: "reload", readsSecrets: true)
        func reject(_ path: String, _ reason: String) {
            findings.reject(at: findings.wholeFile, path: path, "\(reason); if this is intended, restart the sidecar")
        }
        if keys.isEmpty, !other.keys.isEmpty {
            let names = other.keys.map(\.name).joined(separator: ", ")
            reject(
                "auth.keys",
                "expected at least one key, because without keys every client is an admin; the current keys are \(names)")
        }
        if listen.tls != nil, listen.tls?.grpcClientAuthorities == nil, other.listen.tls?.grpcClientAuthorities != nil {
            reject(
                "listen.tls.grpc_client_ca",
                "expected the CA certificates of gRPC clients, which would otherwise need no certificate")
        }
        func lacksContent(_ configuration: SidecarConfiguration) -> Bool {
            configuration.services.isEmpty && configuration.domains.definitions.isEmpty && configuration.keys.isEmpty
        }
        if lacksContent(self), !lacksContent(other) {
            reject("services", "expected a service, a domain or a key, but the file is empty or truncated")
        }
        guard findings.problems.isEmpty else { throw ConfigurationError(problems: findings.problemsInOrder) }
    }

    /// Returns the names that this configuration lacks and `other` has, by section.
    func removals(since other: SidecarConfiguration) -> [String: String] {
        func missing(_ names: [String], _ formerNames: [String]) -> String? {
            let missingNames = formerNames.filter { !names.contains($0) }
            return missingNames.isEmpty ? nil : missingNames.joined(separator: ", ")
        }
        var removed: [String: String] = [:]
        removed["keys"] = missing(keys.map(\.name), other.keys.map(\.name))
        removed["services"] = missing(services.map(\.name), other.services.map(\.name))
        removed["domains"] = missing(domains.definitions.map(\.name), other.domains.definitions.map(\.name))
        return removed
    }
}

extension SidecarConfiguration {
    /// Rejects keys that would leave an open listener reachable from other hosts without authentication. Open listeners
    /// keep their settings, even if the file has changed.
    /// - Throws: `ConfigurationError`.
    func checkListenersAreGuarded(keys: [APIKey]) throws(ConfigurationError) {
        var running = self
        running.keys = keys
        let findings = ConfigurationFindings(fileName: "listeners that are open", readsSecrets: true)
        running.rejectUnguardedListeners(findings)
        guard findings.problems.isEmpty else { throw ConfigurationError(problems: findings.problemsInOrder) }
    }

    /// Returns the names of the settings that differ from `other` and apply only after a restart.
    func changesNeedingRestart(since other: SidecarConfiguration) -> [String] {
        var changes: [String] = []
        func add(_ name: String, if hasChanged: Bool) {
            if hasChanged { changes.append(name) }
        }
        add("redis", if: redis != other.redis)
        add("listen.resp", if: listen.resp != other.listen.resp)
        add("listen.http", if: listen.http != other.listen.http)
        add("listen.grpc", if: listen.grpc != other.listen.grpc)
        add("listen.unix", if: listen.unix != other.listen.unix)
        add("listen.unix_mode", if: listen.unixMode != other.listen.unixMode)
        add("listen.unix_group", if: listen.unixGroup != other.listen.unixGroup)
        add("listen.hosts", if: listen.hosts != other.listen.hosts)
        add("listen.allow_plaintext", if: listen.allowsPlaintext != other.listen.allowsPlaintext)
        // A new certificate applies without a restart.
        add("listen.tls", if: (listen.tls == nil) != (other.listen.tls == nil))
        add("listen.max_connections", if: listen.maximumConnections != other.listen.maximumConnections)
        add("log", if: log != other.log)
        add("rls.timeout", if: domains.timeout != other.domains.timeout)
        add("tracing", if: tracing != other.tracing)
        add("locks", if: locks != other.locks)
        add("fleet_size", if: fleetSize != other.fleetSize)
        add("the data directory", if: dataDirectory != other.dataDirectory)
        return changes
    }
}

internal import Interlock
internal import Logging
internal import ServiceLifecycle
internal import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry
internal import UnixSignals

/// Reloads the configuration on SIGHUP: services, domains, API keys, the listeners' certificate, and the files with
/// passwords and certificates for Redis. A configuration with mistakes, or without the authentication that the current
/// one requires, changes nothing. Removals, and changes that need a restart, are logged by name.
struct ConfigurationReloader: Service {
    /// The configuration that this process was started with.
    let started: SidecarConfiguration
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
        var current = started
        for await _ in requests.cancelOnGracefulShutdown() {
            notifier?.reloadBegan()
            do {
                let configuration = try read()
                for warning in configuration.warnings { logger.log(.configurationWarning, ["warning": warning]) }
                // All checks come before the first change.
                try configuration.rejectLosses(since: current)
                try started.checkListenersAreGuarded(keys: configuration.keys)
                try configuration.services.check()
                let servers = try started.redis.url.map { try started.coordinatorConfiguration(redisURL: $0) }
                if let tls = configuration.listen.tls, let certificate {
                    let lost = certificate.namesLost(with: tls)
                    try certificate.reload(tls)
                    if !lost.isEmpty {
                        let names = lost.joined(separator: ", ")
                        logger.log(
                            .configurationWarning,
                            ["warning": "listen.tls.certificate no longer covers \(names); the previous one did"])
                    }
                }
                access.replace(keys: configuration.keys)
                if let servers { await coordinator.reload(secretsOf: servers) }
                try await coordinator.reload(services: configuration.services)
                await coordinator.reload(domains: configuration.domains.definitions)
                monitor.reload(services: configuration.services)
                let unapplied = configuration.changesNeedingRestart(since: started)
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
}

extension SidecarConfiguration {
    /// Rejects a configuration that looks truncated: it lacks all keys, the authorities for client certificates, or all
    /// content.
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
        func lacking(_ names: [String], _ former: [String]) -> String? {
            let lacking = former.filter { !names.contains($0) }
            return lacking.isEmpty ? nil : lacking.joined(separator: ", ")
        }
        var removed: [String: String] = [:]
        removed["keys"] = lacking(keys.map(\.name), other.keys.map(\.name))
        removed["services"] = lacking(services.map(\.name), other.services.map(\.name))
        removed["domains"] = lacking(domains.definitions.map(\.name), other.domains.definitions.map(\.name))
        return removed
    }
}

extension SidecarConfiguration {
    /// Rejects keys with which an open listener would be reachable from other hosts without authentication. The
    /// listeners keep the settings that they were opened with, even if the file has changed.
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
        note("listen.allow_plaintext", listen.allowsPlaintext != other.listen.allowsPlaintext)
        // A new certificate applies without a restart.
        note("listen.tls", (listen.tls == nil) != (other.listen.tls == nil))
        note("listen.max_connections", listen.maximumConnections != other.listen.maximumConnections)
        note("log", log != other.log)
        note("rls.timeout", domains.timeout != other.domains.timeout)
        note("tracing", tracing != other.tracing)
        note("locks", locks != other.locks)
        note("fleet_size", fleetSize != other.fleetSize)
        note("the data directory", dataDirectory != other.dataDirectory)
        return changes
    }
}

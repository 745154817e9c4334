internal import Interlock
internal import Logging
internal import ServiceLifecycle
internal import UnixSignals

/// Reads the services again on SIGHUP. A configuration with mistakes changes nothing.
struct ConfigurationReloader: Service {
    let coordinator: Coordinator
    let monitor: OutageMonitor
    let logger: Logger
    let read: @Sendable () throws -> SidecarConfiguration

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            do {
                let configuration = try read()
                for warning in configuration.warnings { logger.warning("\(warning)") }
                await coordinator.reload(services: configuration.services)
                monitor.reload(services: configuration.services)
            } catch {
                logger.error("The configuration was not reloaded; the old one stays", metadata: ["error": "\(error)"])
            }
        }
    }
}

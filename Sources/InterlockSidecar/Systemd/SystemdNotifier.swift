internal import Glibc
internal import Interlock
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import ServiceLifecycle
internal import SidecarTelemetry

/// Reports the sidecar's state to the service manager that started this process.
///
/// The coordinator's event loop sends the watchdog messages. If the loop is stuck, it sends no message, and the manager
/// restarts the sidecar.
final class SystemdNotifier: Service {
    private let manager: SystemdEnvironment
    private let socket: NotifySocket
    private let coordinator: Coordinator
    private let logger: Logger
    private let status = NIOLockedValueBox(SystemdStatus())
    private let checkTask = NIOLockedValueBox<RepeatedTask?>(nil)

    /// The interval between checks of Redis if there is no watchdog.
    private static let defaultInterval = Duration.seconds(5)

    /// Returns `nil` if there is no service manager, or if it cannot be reached.
    init?(environment: [String: String], coordinator: Coordinator, logger: Logger) {
        guard let manager = SystemdEnvironment(environment: environment, processID: getpid()) else { return nil }
        guard let socket = NotifySocket(to: manager.address) else {
            logger.log(.managerUnreachable, ["error": String(cString: strerror(errno))])
            return nil
        }
        self.manager = manager
        self.socket = socket
        self.coordinator = coordinator
        self.logger = logger
    }

    /// Checks the coordinator periodically until `end()`, and reports when the sidecar begins to shut down.
    func run() async throws {
        let interval = TimeAmount(manager.watchdog.map { $0 / 2 } ?? Self.defaultInterval)
        let task = coordinator.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: interval) { [weak self] _ in
            self?.check()
        }
        checkTask.withLockedValue { $0 = task }
        try? await gracefulShutdown()
        report { $0.shutdownBegan() }
    }

    /// Stops the periodic checks. Must be called after the other services have shut down, because the loop may also get
    /// stuck during the shutdown.
    func end() {
        checkTask.withLockedValue { $0.take() }?.cancel()
    }

    func listenersOpened() { report { $0.listenersOpened() } }

    func redisConnected() { report { $0.redisConnected() } }

    func reloadBegan() {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
        report { $0.reloadBegan(atMicroseconds: microseconds) }
    }

    /// Reports that a reload is complete.
    /// - Parameter failure: the reason why the old configuration stays in effect; `nil` if the new one was applied.
    func reloadEnded(failure: String?) { report { $0.reloadEnded(failure: failure) } }

    /// Checks Redis and reports its state. Runs on the coordinator's event loop.
    private func check() {
        let redis: SystemdStatus.RedisState = coordinator.assumeIsolated { coordinator in
            coordinator.isReady ? .connected : .unreachable(coordinator.status.redisFailure)
        }
        report(waits: false) { $0.redisChecked(redis) }
    }

    /// Applies a change to the status, and sends the lines that it causes.
    private func report(waits: Bool = true, _ change: (inout SystemdStatus) -> [SystemdStatus.Line]) {
        let lines = status.withLockedValue { change(&$0) }
        guard !lines.isEmpty else { return }
        if let failure = socket.send(lines.map(\.text).joined(separator: "\n"), waits: waits) {
            logger.log(.managerUnreachable, ["error": failure])
        }
    }
}

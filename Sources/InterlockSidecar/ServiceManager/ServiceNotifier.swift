internal import Glibc
internal import Interlock
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import ServiceLifecycle
internal import SidecarTelemetry

/// Tells the service manager that started this process how the sidecar does.
///
/// That the process lives is said from the coordinator's event loop, so that a loop that is stuck is found out: without a turn of
/// it nothing is said, and the manager starts the sidecar anew.
final class ServiceNotifier: Service {
    private let manager: ServiceManager
    private let socket: NotifySocket
    private let coordinator: Coordinator
    private let logger: Logger
    private let report = NIOLockedValueBox(ServiceReport())
    private let looking = NIOLockedValueBox<RepeatedTask?>(nil)

    /// How often Redis is looked at where nobody watches.
    private static let standardPause = Duration.seconds(5)

    /// `nil`: no service manager listens.
    init?(environment: [String: String], coordinator: Coordinator, logger: Logger) {
        guard let manager = ServiceManager(environment: environment, processID: getpid()) else { return nil }
        guard let socket = NotifySocket(to: manager.address) else {
            logger.log(.managerUnreachable, ["error": String(cString: strerror(errno))])
            return nil
        }
        self.manager = manager
        self.socket = socket
        self.coordinator = coordinator
        self.logger = logger
    }

    /// Looks at the coordinator until `end()`, and says when the sidecar begins to go down.
    func run() async throws {
        let pause = TimeAmount(manager.watchdog.map { $0 / 2 } ?? Self.standardPause)
        let task = coordinator.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: pause) { [weak self] _ in self?.look() }
        looking.withLockedValue { $0 = task }
        try? await gracefulShutdown()
        tell { $0.stopped() }
    }

    /// Ends what `run` began: it goes on while the other services end, for a loop may get stuck then, too.
    func end() {
        looking.withLockedValue { $0.take() }?.cancel()
    }

    func doorsAreOpen() { tell { $0.doorsOpened() } }

    func redisIsConnected() { tell { $0.redisConnected() } }

    func reloadBegins() {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        let microseconds = UInt64(now.tv_sec) * 1_000_000 + UInt64(now.tv_nsec) / 1_000
        tell { $0.reloadBegan(at: microseconds) }
    }

    /// - Parameter failure: why the old configuration stays in force.
    func reloadEnded(failure: String?) { tell { $0.reloadEnded(failure: failure) } }

    /// On the coordinator's event loop.
    private func look() {
        let redis: ServiceReport.RedisState = coordinator.assumeIsolated { coordinator in
            coordinator.isReady ? .isUp : .isAway(coordinator.status.redisFailure)
        }
        tell(waits: false) { $0.looked(redis) }
    }

    private func tell(waits: Bool = true, _ change: (inout ServiceReport) -> [ServiceReport.Line]) {
        let lines = report.withLockedValue { change(&$0) }
        guard !lines.isEmpty else { return }
        if let failure = socket.send(lines.map(\.text).joined(separator: "\n"), waits: waits) {
            logger.log(.managerUnreachable, ["error": failure])
        }
    }
}

internal import Interlock
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import ServiceLifecycle

/// Waits until both doors are open and Redis is connected, and says so once.
final class Readiness: Service {
    private struct State {
        var respPort: Int?
        var httpPort: Int?
    }

    private let state = NIOLockedValueBox(State())
    private let privateRedis: String?
    private let coordinator: Coordinator
    private let onReady: @Sendable (Sidecar.Addresses) -> Void
    private let opened: AsyncStream<Void>
    private let open: AsyncStream<Void>.Continuation

    init(privateRedis: String?, coordinator: Coordinator, onReady: @escaping @Sendable (Sidecar.Addresses) -> Void) {
        self.privateRedis = privateRedis
        self.coordinator = coordinator
        self.onReady = onReady
        (opened, open) = AsyncStream.makeStream()
    }

    func respIsOpen(port: Int) {
        state.withLockedValue { $0.respPort = port }
        open.yield()
    }

    func httpIsOpen(port: Int) {
        state.withLockedValue { $0.httpPort = port }
        open.yield()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            for await _ in opened {
                guard let addresses else { continue }
                await coordinator.untilReady()
                if !Task.isCancelled { onReady(addresses) }
                break
            }
        }
        try? await gracefulShutdown()
    }

    private var addresses: Sidecar.Addresses? {
        state.withLockedValue { state in
            guard let respPort = state.respPort, let httpPort = state.httpPort else { return nil }
            return Sidecar.Addresses(respPort: respPort, httpPort: httpPort, privateRedis: privateRedis)
        }
    }
}

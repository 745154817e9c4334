internal import Interlock
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import ServiceLifecycle

/// Waits until the listeners are open and Redis is connected, and reports each once.
final class Readiness: Service {
    /// The ports of the listeners that are open.
    private struct State {
        var respPort: Int?
        var httpPort: Int?
        var grpcPort: Int?
    }

    private let state = NIOLockedValueBox(State())
    private let embeddedRedis: String?
    private let hasGRPC: Bool
    private let coordinator: Coordinator
    private let onOpen: @Sendable () -> Void
    private let onReady: @Sendable (Sidecar.Addresses) -> Void
    private let openings: AsyncStream<Void>
    private let openingsContinuation: AsyncStream<Void>.Continuation

    /// Creates the service, which starts to wait in `run`.
    /// - Parameters:
    ///   - onOpen: called once all listeners are open.
    ///   - onReady: called once all listeners are open and Redis is connected.
    init(
        embeddedRedis: String?, hasGRPC: Bool, coordinator: Coordinator, onOpen: @escaping @Sendable () -> Void,
        onReady: @escaping @Sendable (Sidecar.Addresses) -> Void
    ) {
        self.embeddedRedis = embeddedRedis
        self.hasGRPC = hasGRPC
        self.coordinator = coordinator
        self.onOpen = onOpen
        self.onReady = onReady
        (openings, openingsContinuation) = AsyncStream.makeStream()
    }

    func respListenerOpened(port: Int) {
        state.withLockedValue { $0.respPort = port }
        openingsContinuation.yield()
    }

    func httpListenerOpened(port: Int) {
        state.withLockedValue { $0.httpPort = port }
        openingsContinuation.yield()
    }

    func grpcListenerOpened(port: Int) {
        state.withLockedValue { $0.grpcPort = port }
        openingsContinuation.yield()
    }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            for await _ in openings {
                guard let addresses else { continue }
                onOpen()
                await coordinator.waitUntilReady()
                if !Task.isCancelled { onReady(addresses) }
                break
            }
        }
        try? await gracefulShutdown()
    }

    /// The addresses of all listeners; `nil` until all of them are open.
    private var addresses: Sidecar.Addresses? {
        state.withLockedValue { state in
            guard let respPort = state.respPort, let httpPort = state.httpPort else { return nil }
            guard state.grpcPort != nil || !hasGRPC else { return nil }
            return Sidecar.Addresses(
                respPort: respPort, httpPort: httpPort, grpcPort: state.grpcPort, embeddedRedis: embeddedRedis)
        }
    }
}

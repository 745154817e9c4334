internal import Interlock
package import InterlockCore
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import SidecarSettings

/// The gRPC API over HTTP/2: Envoy's rate limit, authorization, access log and quota services, and gRPC health checks.
package struct GRPCListener: Service {
    private let setup: ListenerSetup
    /// The address of the listener.
    private let endpoint: SocketEndpoint
    /// The time limit for a client to finish the TLS handshake and make an accepted call.
    private let firstRequestTimeout: Duration
    /// Called with the port once the listener is bound.
    private let onBound: @Sendable (Int) -> Void

    package init(
        setup: ListenerSetup, endpoint: SocketEndpoint, firstRequestTimeout: Duration = .seconds(10),
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.setup = setup
        self.endpoint = endpoint
        self.firstRequestTimeout = firstRequestTimeout
        self.onBound = onBound
    }

    /// Serves until graceful shutdown, then closes each connection once its calls are answered.
    /// - Throws: `SidecarError` if the address cannot be used.
    package func run() async throws {
        let eventLoop = setup.coordinator.eventLoop
        let context = try await eventLoop.submit { NIOLoopBound(self.context(), eventLoop: eventLoop) }.get()
        let bootstrap = setup.bootstrap(.grpc, context)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: GRPCConnection.readLength))
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
        try await setup.serve(bootstrap, .grpc, at: endpoint, context, onBound: onBound)
    }

    /// Creates the state that the connections share. Must be called on the event loop.
    package func context() -> GRPCListenerContext {
        let (coordinator, metrics) = (setup.coordinator, setup.metrics)
        let loopCoordinator = coordinator.loopBound()
        let health = HealthService(
            isReady: { coordinator.assumeIsolated { $0.isReady } }, eventLoop: coordinator.eventLoop)
        let methods = [
            RateLimitService(coordinator: loopCoordinator, logger: setup.logger).methods(in: metrics),
            AuthorizationService(coordinator: loopCoordinator).methods(in: metrics),
            AccessLogService(coordinator: loopCoordinator).methods(in: metrics),
            QuotaService(coordinator: loopCoordinator).methods(in: metrics),
            health.methods(in: metrics),
        ]
        return GRPCListenerContext(
            methods: methods.flatMap { $0 }, access: setup.access, isTLS: setup.certificate != nil,
            maximumConnections: setup.listen.maximumConnections, firstRequestTimeout: TimeAmount(firstRequestTimeout),
            eventLoop: coordinator.eventLoop, metrics: metrics,
            scheduler: setup.scheduler?.value ?? SliceScheduler(of: coordinator),
            logger: setup.logger)
    }
}

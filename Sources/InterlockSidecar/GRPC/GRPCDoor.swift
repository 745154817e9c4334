package import Interlock
package import Logging
package import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The gRPC door: Envoy's rate limit service and gRPC's health checks, over HTTP/2.
package struct GRPCDoor: Service {
    /// The time in which a client must finish the TLS handshake and make an accepted call.
    package var firstRequestTimeout = Duration.seconds(10)

    private let coordinator: Coordinator
    private let access: AccessControl
    private let certificate: DoorCertificate?
    private let endpoint: SocketEndpoint
    private let maximumConnections: Int
    private let metrics: PrometheusRegistry
    private let logger: Logger
    private let turns: NIOLoopBound<ClientTurns>?
    private let onBound: @Sendable (Int) -> Void

    /// - Parameters:
    ///   - endpoint: where it listens.
    ///   - certificate: `nil`: it does not speak TLS.
    ///   - turns: shares the event loop's time with the other listeners; `nil` for this listener's connections only.
    ///   - onBound: called with the port once the door is open.
    package init(
        coordinator: Coordinator, access: AccessControl, certificate: DoorCertificate?, endpoint: SocketEndpoint,
        maximumConnections: Int, metrics: PrometheusRegistry, logger: Logger, turns: NIOLoopBound<ClientTurns>? = nil,
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.coordinator = coordinator
        self.access = access
        self.certificate = certificate
        self.endpoint = endpoint
        self.maximumConnections = maximumConnections
        self.metrics = metrics
        self.logger = logger
        self.turns = turns
        self.onBound = onBound
    }

    /// Serves until graceful shutdown; then connections close when their calls are answered.
    /// - Throws: when it cannot listen.
    package func run() async throws {
        let eventLoop = coordinator.eventLoop
        let context = try await eventLoop.submit { NIOLoopBound(self.context(), eventLoop: eventLoop) }.get()
        let registration = access.observe { eventLoop.execute { context.value.checkCallers() } }
        defer { registration.end() }
        let listener: any Channel
        do {
            listener = try await bootstrap(context).bind(host: endpoint.host, port: endpoint.port).get()
        } catch {
            throw SidecarError(cannotListen: "listen.grpc", at: endpoint, error)
        }
        logger.log(.doorOpened, ["door": "grpc", "address": "\(endpoint.bound(to: listener.localAddress))"])
        onBound(listener.localAddress?.port ?? 0)
        try? await gracefulShutdown()
        try? await listener.close()
        try await eventLoop.submit { context.value.goDown() }.get()
        await coordinator.drain()
        try await eventLoop.untilEmpty { context.value.connectionCount == 0 }
    }

    private func context() -> GRPCDoorContext {
        let calls = coordinator.callsOnEventLoop()
        let health = HealthService(
            isReady: { [coordinator] in coordinator.assumeIsolated { $0.isReady } }, eventLoop: coordinator.eventLoop)
        let methods = [
            RateLimitService(calls: calls, logger: logger).methods(in: metrics),
            AuthorizationService(calls: calls).methods(in: metrics), AccessLogService(calls: calls).methods(in: metrics),
            QuotaService(calls: calls).methods(in: metrics),
            health.methods(in: metrics),
        ]
        return GRPCDoorContext(
            methods: methods.flatMap { $0 }, access: access, isTLS: certificate != nil, maximumConnections: maximumConnections,
            firstRequestTimeout: TimeAmount(firstRequestTimeout), eventLoop: coordinator.eventLoop, metrics: metrics,
            turns: turns?.value ?? ClientTurns(of: coordinator),
            logger: logger)
    }

    private func bootstrap(_ context: NIOLoopBound<GRPCDoorContext>) -> ServerBootstrap {
        let failures = FailedHandshakes(door: "grpc", logger: logger)
        let shortage = DescriptorShortage(door: "grpc", logger: logger)
        return ServerBootstrap(group: coordinator.eventLoop)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { listener in
                listener.eventLoop.makeCompletedFuture {
                    try listener.pipeline.syncOperations.addHandler(
                        AcceptPause {
                            shortage.noted()
                            context.value.makeRoom()
                        })
                }
            }
            // A turn of one connection is short: however much it has sent, the others are served before the rest of it.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            // Bytes that arrived before the end may still be waiting for their slice.
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: GRPCConnection.readLength))
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { [certificate] channel in
                channel.eventLoop.makeCompletedFuture {
                    if channel.isFromReserve {
                        shortage.noted()
                        context.value.makeRoom()
                        return channel.close(promise: nil)
                    }
                    let handshake = certificate.map { certificate in
                        { try certificate.secure(channel, of: .grpc, failures: failures) }
                    }
                    try context.value.serve(channel, tls: handshake)
                }
            }
    }
}

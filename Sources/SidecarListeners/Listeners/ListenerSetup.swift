package import Interlock
import InterlockCore
package import Logging
package import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
package import SidecarSettings
package import SidecarTelemetry

/// The parts of the sidecar that its listeners share, and the code that binds and serves them.
package struct ListenerSetup: Sendable {
    /// Executes the calls. All connections run on its event loop.
    package let coordinator: Coordinator
    /// The accepted API keys.
    package let access: AccessControl
    /// The TLS certificate; `nil` for plaintext.
    let certificate: ListenerCertificate?
    /// The listeners' addresses, the host names, and the limit on each listener's connections.
    let listen: ListenSettings
    package let metrics: PrometheusRegistry
    package let logger: Logger
    /// Returns the latest reading of a service's probes.
    let probe: ProbeReadings.Lookup
    /// The source of `LIVE.VIEW`.
    let liveView: LiveView.Source
    /// Begins the spans of calls; `nil` if calls are not traced.
    let tracer: NIOLoopBound<Tracer>?
    /// Divides the event loop's time among the listeners; `nil` if each divides it among its own connections.
    let scheduler: NIOLoopBound<SliceScheduler>?

    package init(
        coordinator: Coordinator, access: AccessControl, certificate: ListenerCertificate?, listen: ListenSettings,
        metrics: PrometheusRegistry, logger: Logger, probe: @escaping ProbeReadings.Lookup = { _ in nil },
        liveView: @escaping LiveView.Source, tracer: NIOLoopBound<Tracer>? = nil, scheduler: NIOLoopBound<SliceScheduler>? = nil
    ) {
        self.coordinator = coordinator
        self.access = access
        self.certificate = certificate
        self.listen = listen
        self.metrics = metrics
        self.logger = logger
        self.probe = probe
        self.liveView = liveView
        self.tracer = tracer
        self.scheduler = scheduler
    }

    /// Returns a bootstrap with the options and the admission of connections that all listeners share.
    /// - Parameters:
    ///   - isLocal: whether the listener is a Unix socket, which never uses TLS.
    ///   - pause: the time for which the listener stops accepting if no file descriptor is free.
    func bootstrap<Context: ListenerContext>(
        _ listener: ListenerName, _ context: NIOLoopBound<Context>, isLocal: Bool = false,
        pause: TimeAmount = .seconds(1)
    ) -> ServerBootstrap {
        let failures = RefusedClients(.failedHandshake, at: listener, logger: logger)
        let certificate = isLocal ? nil : certificate
        let handshake = certificate.map { ConnectionOrigin.Handshake(certificate: $0, listener: listener, failures: failures) }
        let shortage = DescriptorShortage(listener: listener.rawValue, logger: logger)
        return ServerBootstrap(group: coordinator.eventLoop)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let acceptPause = AcceptPause(pause) {
                        shortage.record()
                        context.value.makeRoom()
                    }
                    try channel.pipeline.syncOperations.addHandlers(context.value.listenerHandlers + [acceptPause])
                }
            }
            // One read per tick of the loop, so that a busy client cannot delay the others.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            // Bytes that arrived before the end of input may still wait for a slice.
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let usesReservedDescriptor = channel.usesReservedDescriptor
                    if usesReservedDescriptor {
                        shortage.record()
                        context.value.makeRoom()
                        guard context.value.claimReservedDescriptor(channel) else { return channel.close(promise: nil) }
                    }
                    try context.value.serve(
                        channel,
                        ConnectionOrigin(isLocal: isLocal, usesReservedDescriptor: usesReservedDescriptor, handshake: handshake))
                }
            }
    }

    /// Binds a listener to its TCP address.
    /// - Throws: `SidecarError` if the address cannot be used.
    func bind(
        _ bootstrap: ServerBootstrap, _ listener: ListenerName, at endpoint: SocketEndpoint
    ) async throws -> any Channel {
        do {
            return try await bootstrap.bind(host: endpoint.host, port: endpoint.port).get()
        } catch {
            throw SidecarError(cannotListen: "listen.\(listener)", at: endpoint, error)
        }
    }

    /// Serves until graceful shutdown. Then stops accepting connections, lets the coordinator answer waiting calls, and
    /// returns once every connection has sent its replies and closed.
    /// - Parameter onBound: called with the port once the listener is bound.
    /// - Throws: `SidecarError` if the address cannot be used.
    func serve<Context: ListenerContext>(
        _ bootstrap: ServerBootstrap, _ listener: ListenerName, at endpoint: SocketEndpoint,
        _ context: NIOLoopBound<Context>, onBound: @Sendable (Int) -> Void
    ) async throws {
        let eventLoop = coordinator.eventLoop
        let registration = access.observe { eventLoop.execute { context.value.checkCallers() } }
        defer { registration.end() }
        let channel = try await bind(bootstrap, listener, at: endpoint)
        logger.log(.listenerOpened, ["door": listener.rawValue, "address": "\(endpoint.bound(to: channel.localAddress))"])
        onBound(channel.localAddress?.port ?? 0)
        try? await gracefulShutdown()
        try? await channel.close()
        try await eventLoop.submit { context.value.shutDown() }.get()
        await coordinator.drain()
        try await eventLoop.waitUntilEmpty { context.value.connectionCount == 0 }
    }
}

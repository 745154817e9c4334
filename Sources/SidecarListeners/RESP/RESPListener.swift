internal import Glibc
internal import Interlock
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import SidecarSettings
internal import SidecarTelemetry

/// The RESP API: listens on TCP and, if configured, on a Unix socket, and serves any Redis client.
package struct RESPListener: Service {
    /// The size of the largest read, in bytes: about a hundred commands.
    private static let maximumReadBytes = 4 << 10

    private let setup: ListenerSetup
    /// The time limit for a client to complete the TLS handshake and show its API key.
    private let loginTimeout: Duration
    /// How long a client may leave its replies unread before it is disconnected.
    private let stallTimeout: Duration
    /// Called with the TCP port once the listener is bound.
    private let onBound: @Sendable (Int) -> Void

    package init(
        setup: ListenerSetup, loginTimeout: Duration = .seconds(10), stallTimeout: Duration = .seconds(10),
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.setup = setup
        self.loginTimeout = loginTimeout
        self.stallTimeout = stallTimeout
        self.onBound = onBound
    }

    /// Serves until graceful shutdown, then answers waiting calls, and closes each connection once its output is
    /// written.
    /// - Throws: if the listener cannot be opened.
    package func run() async throws {
        let (eventLoop, listen, logger) = (setup.coordinator.eventLoop, setup.listen, setup.logger)
        let context = try await eventLoop.submit { NIOLoopBound(self.context(), eventLoop: eventLoop) }.get()
        let registration = setup.access.observe { eventLoop.execute { context.value.checkCallers() } }
        defer { registration.end() }
        let tcp = try await setup.bind(bootstrap(context), .resp, at: listen.resp)
        var listeners = [tcp]
        if let path = listen.unix {
            do {
                listeners.append(try await bindUnixSocket(path, context))
            } catch {
                try? await tcp.close()
                throw error
            }
        }
        onBound(tcp.localAddress?.port ?? 0)
        logger.log(.listenerOpened, ["door": "resp", "address": "\(listen.resp.bound(to: tcp.localAddress))"])
        if let path = listen.unix { logger.log(.listenerOpened, ["door": "resp", "address": path]) }
        try? await gracefulShutdown()
        for listener in listeners { try? await listener.close() }
        if let path = listen.unix { unlink(path) }
        await setup.coordinator.drain()
        try await eventLoop.submit { context.value.shutDown() }.get()
        try await eventLoop.waitUntilEmpty { context.value.connectionCount == 0 }
    }

    /// Creates the state that the connections share. Called on the event loop.
    package func context() -> RESPListenerContext {
        RESPListenerContext(
            commands: RESPCommands(
                coordinator: setup.coordinator, probe: setup.probe, liveView: setup.liveView, metrics: setup.metrics,
                tracer: setup.tracer?.value),
            access: setup.access, maximumConnections: setup.listen.maximumConnections, stallTimeout: TimeAmount(stallTimeout),
            loginTimeout: TimeAmount(loginTimeout), isTLS: setup.certificate != nil,
            scheduler: setup.scheduler?.value ?? SliceScheduler(of: setup.coordinator), logger: setup.logger)
    }

    private func bootstrap(_ context: NIOLoopBound<RESPListenerContext>, isLocal: Bool = false) -> ServerBootstrap {
        let reads = AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 1024, maximum: Self.maximumReadBytes)
        return setup.bootstrap(.resp, context, isLocal: isLocal).childChannelOption(.recvAllocator, value: reads)
    }

    /// Binds the Unix socket. Replaces the socket of a dead sidecar, but never that of a live one.
    private func bindUnixSocket(_ path: String, _ context: NIOLoopBound<RESPListenerContext>) async throws -> any Channel {
        let probe = ClientBootstrap(group: setup.coordinator.eventLoop).connectTimeout(.milliseconds(200))
        if let live = try? await probe.connect(unixDomainSocketPath: path).get() {
            try? await live.close()
            throw SidecarError("listen.unix \(path): another process is listening on it; stop it, or use another path")
        }
        let file = UnixSocketFile(path: path, setup.listen)
        try file.checkPath()
        let listener: any Channel
        do {
            listener = try await bootstrap(context, isLocal: true).withBoundSocket(file.bind()).get()
        } catch {
            throw SidecarError(cannotListen: "listen.unix", at: path, error)
        }
        do throws(SidecarError) {
            try file.publish()
        } catch {
            try? await listener.close()
            file.remove()
            throw error
        }
        return listener
    }
}

internal import Glibc
internal import Interlock
internal import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import SidecarSettings
internal import SidecarTelemetry

/// The RESP API, for any Redis client: listens on TCP and, if configured, on a Unix socket.
package struct RESPListener: Service {
    /// The maximum length of a read, in bytes: about a hundred commands.
    private static let maximumReadLength = 4 << 10

    private let setup: ListenerSetup
    /// The time limit for a client to complete the TLS handshake and send its API key.
    private let loginTimeout: Duration
    /// The time after which a client that does not read its replies is dropped.
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
    /// - Throws: `SidecarError` if the listener cannot be opened.
    package func run() async throws {
        let (eventLoop, listen, logger) = (setup.coordinator.eventLoop, setup.listen, setup.logger)
        let context = try await eventLoop.submit { NIOLoopBound(self.context(), eventLoop: eventLoop) }.get()
        let registration = setup.access.observe { eventLoop.execute { context.value.checkCallers() } }
        defer { registration.end() }
        let tcp = try await setup.bind(bootstrap(context), .resp, at: listen.resp)
        var channels = [tcp]
        if let path = listen.unix {
            do {
                channels.append(try await bindUnixSocket(path, context))
            } catch {
                try? await tcp.close()
                throw error
            }
        }
        onBound(tcp.localAddress?.port ?? 0)
        logger.log(.listenerOpened, ["door": "resp", "address": "\(listen.resp.bound(to: tcp.localAddress))"])
        if let path = listen.unix { logger.log(.listenerOpened, ["door": "resp", "address": path]) }
        try? await gracefulShutdown()
        for channel in channels { try? await channel.close() }
        if let path = listen.unix { unlink(path) }
        await setup.coordinator.drain()
        try await eventLoop.submit { context.value.shutDown() }.get()
        try await eventLoop.waitUntilEmpty { context.value.connectionCount == 0 }
    }

    /// Creates the state that the connections share. Must be called on the event loop.
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
        let allocator = AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 1024, maximum: Self.maximumReadLength)
        return setup.bootstrap(.resp, context, isLocal: isLocal).childChannelOption(.recvAllocator, value: allocator)
    }

    /// Binds the Unix socket. Replaces the socket of a sidecar that has ended, but not one on which a process still
    /// listens.
    private func bindUnixSocket(_ path: String, _ context: NIOLoopBound<RESPListenerContext>) async throws -> any Channel {
        let client = ClientBootstrap(group: setup.coordinator.eventLoop).connectTimeout(.milliseconds(200))
        if let connection = try? await client.connect(unixDomainSocketPath: path).get() {
            try? await connection.close()
            throw SidecarError("listen.unix \(path): another process is listening on it; stop it, or use another path")
        }
        let file = UnixSocketFile(path: path, setup.listen)
        try file.checkPath()
        let channel: any Channel
        do {
            channel = try await bootstrap(context, isLocal: true).withBoundSocket(file.bind()).get()
        } catch {
            throw SidecarError(cannotListen: "listen.unix", at: path, error)
        }
        do throws(SidecarError) {
            try file.publish()
        } catch {
            try? await channel.close()
            file.remove()
            throw error
        }
        return channel
    }
}

internal import Glibc
package import Interlock
package import Logging
package import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The RESP door: listens on TCP and, when configured, on a Unix socket, and serves any Redis client.
package struct RESPDoor: Service {
    /// In bytes: some hundred commands.
    private static let longestRead = 4 << 10

    /// How long a client may leave its replies unread before it is dropped.
    package var stallTimeout = Duration.seconds(10)

    /// Until then a client must have shown its API key, and agreed on TLS.
    package var loginTimeout = Duration.seconds(10)

    private let coordinator: Coordinator
    private let access: AccessControl
    private let certificate: DoorCertificate?
    private let listen: ListenSettings
    private let metrics: PrometheusRegistry
    private let logger: Logger
    private let probe: ProbeReadings.Lookup
    private let live: NIOLoopBound<LiveHub>
    private let tracer: NIOLoopBound<Tracer>?
    private let turns: NIOLoopBound<ClientTurns>?
    private let onBound: @Sendable (Int) -> Void

    /// - Parameters:
    ///   - certificate: `nil`: it does not speak TLS.
    ///   - metrics: where this door measures.
    ///   - probe: what is known of a service's probes.
    ///   - live: what `LIVE.VIEW` shows.
    ///   - tracer: begins the spans of commands; `nil`: none is traced.
    ///   - turns: shares the event loop's time with the other listeners; `nil` for this listener's connections only.
    ///   - onBound: called with the TCP port once it listens.
    package init(
        coordinator: Coordinator, access: AccessControl, certificate: DoorCertificate?, listen: ListenSettings,
        metrics: PrometheusRegistry, logger: Logger,
        probe: @escaping ProbeReadings.Lookup = { _ in nil }, live: NIOLoopBound<LiveHub>,
        tracer: NIOLoopBound<Tracer>? = nil, turns: NIOLoopBound<ClientTurns>? = nil,
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.coordinator = coordinator
        self.access = access
        self.certificate = certificate
        self.listen = listen
        self.metrics = metrics
        self.logger = logger
        self.probe = probe
        self.live = live
        self.tracer = tracer
        self.turns = turns
        self.onBound = onBound
    }

    /// Serves until graceful shutdown; then waits are answered, and connections close when all is written.
    /// - Throws: when it cannot listen.
    package func run() async throws {
        let eventLoop = coordinator.eventLoop
        let context = try await eventLoop.submit {
            NIOLoopBound(
                RESPDoorContext(
                    coordinator: coordinator, access: access, maximumConnections: listen.maximumConnections,
                    stallTimeout: TimeAmount(stallTimeout), loginTimeout: TimeAmount(loginTimeout), isTLS: certificate != nil,
                    logger: logger, probe: probe, live: live.value, metrics: metrics, tracer: tracer?.value,
                    turns: turns?.value),
                eventLoop: eventLoop)
        }.get()
        let registration = access.observe { eventLoop.execute { context.value.checkLogins() } }
        defer { registration.end() }
        let tcp: any Channel
        do {
            tcp = try await bootstrap(context).bind(host: listen.resp.host, port: listen.resp.port).get()
        } catch {
            throw SidecarError(cannotListen: "listen.resp", at: listen.resp, error)
        }
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
        logger.log(.doorOpened, ["door": "resp", "address": "\(listen.resp.bound(to: tcp.localAddress))"])
        if let path = listen.unix { logger.log(.doorOpened, ["door": "resp", "address": path]) }
        try? await gracefulShutdown()
        for listener in listeners { try? await listener.close() }
        if let path = listen.unix { unlink(path) }
        await coordinator.drain()
        try await eventLoop.submit { context.value.closeAll() }.get()
        try await eventLoop.untilEmpty { context.value.connectionCount == 0 }
    }

    private func bootstrap(
        _ context: NIOLoopBound<RESPDoorContext>, isLocal: Bool = false
    ) -> ServerBootstrap {
        let failures = FailedHandshakes(door: "resp", logger: logger)
        let shortage = DescriptorShortage(door: "resp", logger: logger)
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
            .childChannelOption(
                .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 1024, maximum: Self.longestRead)
            )
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if channel.isFromReserve {
                        shortage.noted()
                        context.value.makeRoom()
                        return channel.close(promise: nil)
                    }
                    let handshake =
                        isLocal
                        ? nil
                        : certificate.map { certificate in
                            { try certificate.secure(channel, of: .resp, failures: failures) }
                        }
                    try context.value.accept(channel, isLocal: isLocal, tls: handshake)
                }
            }
    }

    /// Where a dead sidecar left its socket, this one's takes its place; a live one is not disturbed.
    private func bindUnixSocket(_ path: String, _ context: NIOLoopBound<RESPDoorContext>) async throws -> any Channel {
        let probe = ClientBootstrap(group: coordinator.eventLoop).connectTimeout(.milliseconds(200))
        if let live = try? await probe.connect(unixDomainSocketPath: path).get() {
            try? await live.close()
            throw SidecarError("listen.unix \(path): another process is listening there; stop it, or name another path")
        }
        let file = UnixSocketFile(path: path, listen)
        try file.checkPlace()
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

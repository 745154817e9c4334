package import Interlock
package import Logging
package import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The HTTP door: locks, limits, permits, breakers, events, metrics and health as JSON over HTTP/1.1, and the guarded proxy.
///
/// Its channels live on the coordinator's event loop. On graceful shutdown it stops accepting, ends the event streams, has the
/// coordinator answer whoever waits, and finishes what is under way.
package struct HTTPDoor: Service {
    /// Until then a client must have agreed on TLS and sent the head of its first request.
    package var firstRequestTimeout = Duration.seconds(10)
    /// A connection without a request under way, or whose request does not arrive, is closed after so long.
    package var idleTimeout = Duration.seconds(60)

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

    /// A door that is closed until `run`.
    /// - Parameters:
    ///   - coordinator: what carries the calls out; it is run by whoever made it.
    ///   - access: who may enter.
    ///   - certificate: `nil`: it does not speak TLS.
    ///   - listen: the address, further host names, and the most connections at a time.
    ///   - metrics: what `/metrics` shows, and where this door counts.
    ///   - probe: what is known of a service's probes.
    ///   - live: what the console shows.
    ///   - tracer: begins the spans of calls; `nil`: none is traced.
    ///   - turns: shares the event loop's time with the other listeners; `nil` for this listener's connections only.
    ///   - onBound: called with the port once the door is open.
    package init(
        coordinator: Coordinator,
        access: AccessControl,
        certificate: DoorCertificate?,
        listen: ListenSettings,
        metrics: PrometheusRegistry,
        logger: Logger,
        probe: @escaping ProbeReadings.Lookup = { _ in nil },
        live: NIOLoopBound<LiveHub>,
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
        let shared = try await eventLoop.submit { NIOLoopBound(self.shared(), eventLoop: eventLoop) }.get()
        let registration = access.observe { eventLoop.execute { shared.value.door.checkCallers() } }
        defer { registration.end() }
        let listener: any Channel
        do {
            listener = try await bootstrap(shared).bind(host: listen.http.host, port: listen.http.port).get()
        } catch {
            throw SidecarError(cannotListen: "listen.http", at: listen.http, error)
        }
        logger.log(.doorOpened, ["door": "http", "address": "\(listen.http.bound(to: listener.localAddress))"])
        onBound(listener.localAddress?.port ?? 0)
        try? await gracefulShutdown()
        try? await listener.close()
        try await eventLoop.submit { shared.value.door.goDown() }.get()
        await coordinator.drain()
        try await eventLoop.untilEmpty { shared.value.door.connectionCount == 0 }
        try await eventLoop.submit { shared.value.upstreams.close() }.get()
    }

    private func shared() -> (door: HTTPDoorContext, upstreams: Upstreams) {
        let calls = coordinator.callsOnEventLoop()
        let upstreams = Upstreams(calls: calls, eventLoop: coordinator.eventLoop, metrics: metrics)
        calls.whenReloaded.append { [weak upstreams, unowned calls] in
            upstreams?.keep { calls.definition(ofService: $0)?.upstream != nil }
        }
        let door = HTTPDoorContext(
            router: HTTPRouter(routes: routes(NIOLoopBound(upstreams, eventLoop: coordinator.eventLoop)), metrics: metrics),
            gate: HTTPGate(access: access, hosts: listen.hosts), isTLS: certificate != nil,
            maximumConnections: listen.maximumConnections, firstRequestTimeout: TimeAmount(firstRequestTimeout),
            idleTimeout: TimeAmount(idleTimeout), metrics: metrics, tracer: tracer?.value,
            turns: turns?.value ?? ClientTurns(of: coordinator), logger: logger)
        return (door, upstreams)
    }

    private typealias Shared = (door: HTTPDoorContext, upstreams: Upstreams)

    private func bootstrap(_ shared: NIOLoopBound<Shared>) -> ServerBootstrap {
        let failures = FailedHandshakes(door: "http", logger: logger)
        let shortage = DescriptorShortage(door: "http", logger: logger)
        return ServerBootstrap(group: coordinator.eventLoop)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelInitializer { listener in
                listener.eventLoop.makeCompletedFuture {
                    let pause = AcceptPause(Self.pauseWithoutDescriptors) {
                        shortage.noted()
                        shared.value.door.makeRoom()
                    }
                    try listener.pipeline.syncOperations.addHandlers(AcceptWhenFree(shared.value.door), pause)
                }
            }
            // A turn of one connection is short: however much it has sent, the others are served before the rest of it.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { [certificate] channel in
                channel.eventLoop.makeCompletedFuture {
                    let door = shared.value.door
                    let isFromReserve = channel.isFromReserve
                    if isFromReserve {
                        shortage.noted()
                        door.makeRoom()
                        guard door.takeReserved() else { return channel.close(promise: nil) }
                        channel.closeFuture.assumeIsolated().whenComplete { _ in door.returnReserved() }
                    }
                    let handshake = certificate.map { certificate in
                        { try certificate.secure(channel, of: .http, failures: failures) }
                    }
                    try door.serve(channel, isFromReserve: isFromReserve, tls: handshake)
                }
            }
    }

    /// The pause between two attempts to accept while no descriptor is free, short enough for `/healthz` to answer
    /// within a second.
    private static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)

    /// Every route there is, in the order of the design's table.
    func routes(_ upstreams: NIOLoopBound<Upstreams>) -> [HTTPRoute] {
        let pages = MetricsPages(eventLoop: coordinator.eventLoop) { [coordinator, metrics] format in
            await coordinator.refreshGauges()
            return metrics.exposition(as: format)
        }
        return [
            LockRoutes(coordinator: coordinator).routes, LimitRoutes(coordinator: coordinator).routes,
            CheckRoutes(coordinator: coordinator).routes, DomainRoutes(coordinator: coordinator).routes,
            PermitRoutes(coordinator: coordinator).routes, ServiceRoutes(coordinator: coordinator, probe: probe).routes,
            FleetRoutes(coordinator: coordinator).routes, EventRoutes(coordinator: coordinator).routes,
            ProxyRoutes(upstreams: upstreams, logger: logger).routes,
            SmallestLockRoutes(coordinator: coordinator).routes, ConsoleRoutes(live: live, access: access).routes,
            HealthRoutes(coordinator: coordinator, metrics: NIOLoopBound(pages, eventLoop: coordinator.eventLoop)).routes,
        ].flatMap(\.self)
    }
}

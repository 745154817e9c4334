internal import Interlock
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The HTTP API: locks, limits, permits, breakers, events, metrics and health, and the guarded proxy.
///
/// The channels run on the coordinator's event loop. On graceful shutdown, the service stops accepting connections,
/// ends the event streams, makes the coordinator answer waiting calls, and finishes the requests under way.
struct HTTPDoor: Service {
    let setup: ListenerSetup
    /// The time in which a client must complete the TLS handshake and send the head of its first request.
    var firstRequestTimeout = Duration.seconds(10)
    /// The time after which a connection closes if it has no request under way, or if its request does not arrive.
    var idleTimeout = Duration.seconds(60)
    /// Called with the port once the listener is bound.
    var onBound: @Sendable (Int) -> Void = { _ in }

    /// Serves until graceful shutdown, then answers waiting calls, and closes each connection once its output is
    /// written.
    /// - Throws: if the listener cannot be opened.
    func run() async throws {
        let eventLoop = setup.coordinator.eventLoop
        let (context, upstreams) = try await eventLoop.submit { self.shared() }.get()
        let bootstrap = setup.bootstrap(.http, context, pause: Self.pauseWithoutDescriptors)
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
        try await setup.serve(bootstrap, .http, at: setup.listen.http, context, onBound: onBound)
        try await eventLoop.submit { upstreams.value.close() }.get()
    }

    /// Makes the state that the connections have in common. Called on the event loop.
    func shared() -> (context: NIOLoopBound<HTTPDoorContext>, upstreams: NIOLoopBound<Upstreams>) {
        let eventLoop = setup.coordinator.eventLoop
        let calls = setup.coordinator.callsOnEventLoop()
        let upstreams = Upstreams(
            calls: calls, eventLoop: eventLoop, metrics: setup.metrics, environment: setup.servers)
        calls.whenReloaded.append { [weak upstreams, unowned calls] in
            upstreams?.keep { calls.definition(ofService: $0)?.upstream != nil }
        }
        let bound = NIOLoopBound(upstreams, eventLoop: eventLoop)
        let context = HTTPDoorContext(
            router: HTTPRouter(routes: routes(bound), metrics: setup.metrics),
            gate: HTTPGate(access: setup.access, hosts: setup.listen.hosts), isTLS: setup.certificate != nil,
            maximumConnections: setup.listen.maximumConnections, firstRequestTimeout: TimeAmount(firstRequestTimeout),
            idleTimeout: TimeAmount(idleTimeout), tracer: setup.tracer?.value,
            date: HTTPDate { [unowned calls] in calls.wallTime() / 1000 },
            turns: setup.turns?.value ?? ClientTurns(of: setup.coordinator), logger: setup.logger)
        return (NIOLoopBound(context, eventLoop: eventLoop), bound)
    }

    /// The pause between two attempts to accept while no descriptor is free, short enough for `/healthz` to answer
    /// within a second.
    private static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)

    /// Returns all routes, in the order of the design's table.
    func routes(_ upstreams: NIOLoopBound<Upstreams>) -> [HTTPRoute] {
        let coordinator = setup.coordinator
        let pages = MetricsPages(eventLoop: coordinator.eventLoop) { [coordinator, metrics = setup.metrics] format in
            await coordinator.refreshGauges()
            return metrics.exposition(as: format)
        }
        return [
            LockRoutes(coordinator: coordinator).routes, LimitRoutes(coordinator: coordinator).routes,
            CheckRoutes(coordinator: coordinator).routes, DomainRoutes(coordinator: coordinator).routes,
            PermitRoutes(coordinator: coordinator).routes, ServiceRoutes(coordinator: coordinator, probe: setup.probe).routes,
            FleetRoutes(coordinator: coordinator).routes, EventRoutes(coordinator: coordinator).routes,
            ProxyRoutes(upstreams: upstreams, logger: setup.logger).routes,
            SmallestLockRoutes(coordinator: coordinator).routes, ConsoleRoutes(live: setup.live, access: setup.access).routes,
            HealthRoutes(coordinator: coordinator, metrics: NIOLoopBound(pages, eventLoop: coordinator.eventLoop)).routes,
        ].flatMap(\.self)
    }
}

internal import Interlock
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle

/// The HTTP door: locks, limits, permits, breakers, events, metrics and health as JSON over HTTP/1.1, and the guarded proxy.
///
/// Its channels live on the coordinator's event loop. On graceful shutdown it stops accepting, ends the event streams, has the
/// coordinator answer whoever waits, and finishes what is under way.
struct HTTPDoor: Service {
    let setup: ListenerSetup
    /// Until then a client must have agreed on TLS and sent the head of its first request.
    var firstRequestTimeout = Duration.seconds(10)
    /// A connection without a request under way, or whose request does not arrive, is closed after so long.
    var idleTimeout = Duration.seconds(60)
    /// Called with the port once the listener is bound.
    var onBound: @Sendable (Int) -> Void = { _ in }

    /// Serves until graceful shutdown; then waits are answered, and connections close when all is written.
    /// - Throws: when it cannot listen.
    func run() async throws {
        let eventLoop = setup.coordinator.eventLoop
        let (context, upstreams) = try await eventLoop.submit { self.shared() }.get()
        let bootstrap = setup.bootstrap(.http, context, pause: Self.pauseWithoutDescriptors)
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
        try await setup.serve(bootstrap, .http, at: setup.listen.http, context, onBound: onBound)
        try await eventLoop.submit { upstreams.value.close() }.get()
    }

    private func shared() -> (context: NIOLoopBound<HTTPDoorContext>, upstreams: NIOLoopBound<Upstreams>) {
        let eventLoop = setup.coordinator.eventLoop
        let calls = setup.coordinator.callsOnEventLoop()
        let upstreams = Upstreams(calls: calls, eventLoop: eventLoop, metrics: setup.metrics)
        calls.whenReloaded.append { [weak upstreams, unowned calls] in
            upstreams?.keep { calls.definition(ofService: $0)?.upstream != nil }
        }
        let bound = NIOLoopBound(upstreams, eventLoop: eventLoop)
        let context = HTTPDoorContext(
            router: HTTPRouter(routes: routes(bound), metrics: setup.metrics),
            gate: HTTPGate(access: setup.access, hosts: setup.listen.hosts), isTLS: setup.certificate != nil,
            maximumConnections: setup.listen.maximumConnections, firstRequestTimeout: TimeAmount(firstRequestTimeout),
            idleTimeout: TimeAmount(idleTimeout), tracer: setup.tracer?.value,
            turns: setup.turns?.value ?? ClientTurns(of: setup.coordinator), logger: setup.logger)
        return (NIOLoopBound(context, eventLoop: eventLoop), bound)
    }

    /// The pause between two attempts to accept while no descriptor is free, short enough for `/healthz` to answer
    /// within a second.
    private static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)

    /// Every route there is, in the order of the design's table.
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

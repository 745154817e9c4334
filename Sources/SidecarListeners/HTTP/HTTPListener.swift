internal import Interlock
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import SidecarSettings
internal import SidecarTelemetry

/// The HTTP API: locks, limits, permits, breakers, events, metrics and health.
///
/// The channels run on the coordinator's event loop. On graceful shutdown, the service stops accepting connections,
/// ends the event streams, makes the coordinator answer waiting calls, and finishes the requests in flight.
package struct HTTPListener: Service {
    package let setup: ListenerSetup
    /// Returns the routes of other parts of the sidecar: the proxy and the console. Called on the event loop.
    private let otherRoutes: @Sendable () -> [HTTPRoute]
    /// The time limit for a client to complete the TLS handshake and send the head of its first request.
    private let firstRequestTimeout: Duration
    /// The time after which a connection closes if no request is in flight, or if its request does not arrive.
    private let idleTimeout: Duration
    /// Called with the port once the listener is bound.
    private let onBound: @Sendable (Int) -> Void

    package init(
        setup: ListenerSetup, firstRequestTimeout: Duration = .seconds(10), idleTimeout: Duration = .seconds(60),
        otherRoutes: @escaping @Sendable () -> [HTTPRoute], onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.setup = setup
        self.firstRequestTimeout = firstRequestTimeout
        self.idleTimeout = idleTimeout
        self.otherRoutes = otherRoutes
        self.onBound = onBound
    }

    /// Serves until graceful shutdown, then answers waiting calls, and closes each connection once its output is
    /// written.
    /// - Throws: `SidecarError` if the address cannot be used.
    package func run() async throws {
        let eventLoop = setup.coordinator.eventLoop
        let context = try await eventLoop.submit { NIOLoopBound(self.context(), eventLoop: eventLoop) }.get()
        let bootstrap = setup.bootstrap(.http, context, pause: Self.pauseWithoutDescriptors)
            .childChannelOption(.socketOption(.tcp_nodelay), value: 1)
        try await setup.serve(bootstrap, .http, at: setup.listen.http, context, onBound: onBound)
    }

    /// Creates the state that the connections share. Must be called on the event loop.
    package func context() -> HTTPListenerContext {
        let coordinator = setup.coordinator.loopBound()
        return HTTPListenerContext(
            router: HTTPRouter(routes: routes, metrics: setup.metrics),
            gate: HTTPGate(access: setup.access, hosts: setup.listen.hosts), isTLS: setup.certificate != nil,
            maximumConnections: setup.listen.maximumConnections, firstRequestTimeout: TimeAmount(firstRequestTimeout),
            idleTimeout: TimeAmount(idleTimeout), tracer: setup.tracer?.value,
            date: HTTPDate { [unowned coordinator] in coordinator.wallTimeMilliseconds() / 1000 },
            scheduler: setup.scheduler?.value ?? SliceScheduler(of: setup.coordinator), logger: setup.logger)
    }

    /// The pause between two attempts to accept a connection while no descriptor is free. It is short enough for
    /// `/healthz` to respond within a second.
    private static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)

    /// All routes of the API.
    package var routes: [HTTPRoute] {
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
            MinimalLockRoutes(coordinator: coordinator).routes, otherRoutes(),
            HealthRoutes(coordinator: coordinator, metrics: NIOLoopBound(pages, eventLoop: coordinator.eventLoop)).routes,
        ].flatMap(\.self)
    }
}

internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import ServiceLifecycle
internal import SidecarConsole
internal import SidecarListeners
internal import SidecarProxy

/// The HTTP API with the routes of the guarded proxy and of the console.
struct HTTPService: Service {
    private let upstreams: NIOLoopBound<Upstreams>
    private let listener: HTTPListener

    /// Creates the service. Must be called on the event loop.
    /// - Parameter upstreamEnvironment: the environment of the proxy's connections to upstreams.
    init(
        _ setup: ListenerSetup, live: LiveHub, upstreamEnvironment: HTTPClientEnvironment = .system,
        firstRequestTimeout: Duration = .seconds(10), idleTimeout: Duration = .seconds(60),
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        let eventLoop = setup.coordinator.eventLoop
        let coordinator = setup.coordinator.loopBound()
        let upstreams = Upstreams(
            coordinator: coordinator, eventLoop: eventLoop, metrics: setup.metrics, environment: upstreamEnvironment)
        coordinator.reloadActions.append { [weak upstreams, unowned coordinator] in
            upstreams?.removeAll { coordinator.definition(ofService: $0)?.upstream == nil }
        }
        let bound = NIOLoopBound(upstreams, eventLoop: eventLoop)
        let live = NIOLoopBound(live, eventLoop: eventLoop)
        self.upstreams = bound
        listener = HTTPListener(
            setup: setup, firstRequestTimeout: firstRequestTimeout, idleTimeout: idleTimeout,
            otherRoutes: {
                ProxyRoutes(upstreams: bound, logger: setup.logger).routes
                    + ConsoleRoutes(live: live, access: setup.access).routes
            }, onBound: onBound)
    }

    /// Serves until graceful shutdown, then closes the proxy's idle connections.
    /// - Throws: an error if the listener cannot be opened.
    func run() async throws {
        try await listener.run()
        try await listener.setup.coordinator.eventLoop.submit { close() }.get()
    }

    /// All routes. Must be accessed on the event loop.
    var routes: [HTTPRoute] { listener.routes }

    /// Returns the state that all connections share. Must be called on the event loop.
    func context() -> HTTPListenerContext { listener.context() }

    /// Closes the proxy's idle connections. Must be called on the event loop.
    func close() { upstreams.value.close() }
}

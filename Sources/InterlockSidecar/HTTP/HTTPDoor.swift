internal import HTTPTypes
internal import HummingbirdCore
internal import HummingbirdTLS
public import Interlock
public import Logging
public import NIOCore
internal import NIOSSL
public import ServiceLifecycle

/// The HTTP door: locks, limits, permits, breakers, events, metrics and health as JSON over HTTP/1.1, and the guarded proxy.
///
/// Its channels live on the event loop group it is given; each call hops to the coordinator's loop once. On graceful
/// shutdown it stops accepting, ends the event streams, has the coordinator answer whoever waits, and finishes what is
/// under way.
public struct HTTPDoor: Service {
    /// A connection without a request under way, or whose request does not arrive, is closed after so long.
    static let idleTimeout: TimeAmount = .seconds(60)

    private let coordinator: Coordinator
    private let access: AccessControl
    private let listen: ListenSettings
    private let metrics: PrometheusRegistry
    private let eventLoopGroup: any EventLoopGroup
    private let logger: Logger
    private let onBound: @Sendable (Int) -> Void
    private let upstreams: Upstreams

    /// A door that is closed until `run`.
    /// - Parameters:
    ///   - coordinator: what carries the calls out; it is run by whoever made it.
    ///   - access: who may enter.
    ///   - listen: the address, further host names, TLS, and the most connections at a time.
    ///   - metrics: what `/metrics` shows, and where this door counts.
    ///   - onBound: called with the port once the door is open.
    public init(
        coordinator: Coordinator,
        access: AccessControl,
        listen: ListenSettings,
        metrics: PrometheusRegistry,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.coordinator = coordinator
        self.access = access
        self.listen = listen
        self.metrics = metrics
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.onBound = onBound
        upstreams = Upstreams(eventLoopGroup: eventLoopGroup)
    }

    /// Serves until graceful shutdown.
    /// - Throws: what binding throws, and what is wrong with the certificate or its key.
    public func run() async throws {
        let responder = HTTPDoorResponder(
            router: HTTPRouter(routes: routes, metrics: metrics), gate: HTTPGate(access: access, hosts: listen.hosts),
            logger: logger)
        let server = try serverBuilder().buildServer(
            configuration: ServerConfiguration(
                address: .hostname(listen.http.host, port: listen.http.port),
                availableConnectionsDelegate: .maximum(listen.maximumConnections, logger: logger)),
            eventLoopGroup: eventLoopGroup,
            logger: logger,
            responder: { request, writer, channel in
                try await responder.respond(to: request, writer: writer, channel: channel)
            },
            onServerRunning: { [onBound] channel in
                onBound(channel.localAddress?.port ?? 0)
            })
        let result: Result<Void, any Error>
        do {
            result = .success(try await run(server))
        } catch {
            result = .failure(error)
        }
        await upstreams.shutDown()
        try result.get()
    }

    private func run(_ server: some Service) async throws {
        try await withGracefulShutdownHandler {
            try await server.run()
        } onGracefulShutdown: { [coordinator] in
            // The server waits for its requests, and some of those wait for a lock or a turn.
            Task { await coordinator.drain() }
        }
    }

    /// Every route there is, in the order of the design's table.
    var routes: [HTTPRoute] {
        LockRoutes(coordinator: coordinator).routes
            + LimitRoutes(coordinator: coordinator).routes
            + PermitRoutes(coordinator: coordinator).routes
            + ServiceRoutes(coordinator: coordinator).routes
            + EventRoutes(coordinator: coordinator).routes
            + ProxyRoutes(coordinator: coordinator, upstreams: upstreams, isTLS: listen.tls != nil, logger: logger).routes
            + SmallestLockRoutes(coordinator: coordinator).routes
            + HealthRoutes(coordinator: coordinator, metrics: metrics).routes
    }

    private func serverBuilder() throws -> HTTPServerBuilder {
        let configuration = HTTP1Channel.Configuration(
            additionalChannelHandlers: [PeerPresenceHandler()],
            idleTimeout: Self.idleTimeout,
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: 8 * 1024, maxHeaderListSize: 32 * 1024, maxHeaderFieldCount: 100))
        let http1 = HTTPServerBuilder { responder in
            LoopBoundChannel(base: HTTP1Channel(responder: responder, configuration: configuration))
        }
        guard let tls = listen.tls else { return http1 }
        var tlsConfiguration = try tls.serverConfiguration()
        tlsConfiguration.applicationProtocols = ["http/1.1"]
        // How long a close waits for the other side to agree: it is idle connections that hold up a shutdown.
        tlsConfiguration.shutdownTimeout = .seconds(1)
        return try .tls(http1, tlsConfiguration: tlsConfiguration)
    }
}

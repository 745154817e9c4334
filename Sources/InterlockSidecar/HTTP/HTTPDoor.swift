internal import HTTPTypes
internal import HummingbirdCore
package import Interlock
package import Logging
internal import NIOConcurrencyHelpers
package import NIOCore
internal import ServiceLifecycle

/// The HTTP door: locks, limits, permits, breakers, events, metrics and health as JSON over HTTP/1.1, and the guarded proxy.
///
/// Its channels live on the event loop group it is given; each call hops to the coordinator's loop once. On graceful
/// shutdown it stops accepting, ends the event streams, has the coordinator answer whoever waits, and finishes what is
/// under way.
package struct HTTPDoor: Service {
    /// The same as `firstRequestTimeout`, of one of the few connections that are served when all places are taken.
    private static let shortTimeout = Duration.seconds(1)

    /// Until then a client must have agreed on TLS and sent the head of its first request.
    package var firstRequestTimeout = Duration.seconds(10)
    /// A connection without a request under way, or whose request does not arrive, is closed after so long.
    package var idleTimeout = Duration.seconds(60)

    private let coordinator: Coordinator
    private let access: AccessControl
    private let certificate: DoorCertificate?
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
    ///   - certificate: `nil`: it does not speak TLS.
    ///   - listen: the address, further host names, and the most connections at a time.
    ///   - metrics: what `/metrics` shows, and where this door counts.
    ///   - onBound: called with the port once the door is open.
    package init(
        coordinator: Coordinator,
        access: AccessControl,
        certificate: DoorCertificate?,
        listen: ListenSettings,
        metrics: PrometheusRegistry,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        onBound: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.coordinator = coordinator
        self.access = access
        self.certificate = certificate
        self.listen = listen
        self.metrics = metrics
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.onBound = onBound
        upstreams = Upstreams(eventLoopGroup: eventLoopGroup)
    }

    /// Serves until graceful shutdown.
    /// - Throws: what binding throws.
    package func run() async throws {
        // The library's diary is not the sidecar's.
        let quiet = logger.atLeast(.warning)
        let places = HTTPPlaces(count: listen.maximumConnections)
        let router = HTTPRouter(routes: routes, metrics: metrics)
        let refusals = HTTPRefusalCounters(in: metrics)
        let refusedLogins = RefusedLogins(door: "http", logger: logger)
        func connections(isFull: Bool) -> HTTP1Channel {
            let responder = HTTPDoorResponder(
                router: router, gate: HTTPGate(access: access, hosts: listen.hosts), isFull: isFull, logger: logger,
                refusals: refusals, refusedLogins: refusedLogins)
            return HTTP1Channel(
                responder: { try await responder.respond(to: $0, writer: $1, channel: $2) },
                configuration: connectionConfiguration(
                    firstRequestTimeout: isFull ? min(firstRequestTimeout, Self.shortTimeout) : firstRequestTimeout))
        }
        let hasOpened = NIOLockedValueBox(false)
        let server = Server(
            childChannelSetup: HTTPDoorChannel(
                places: places, certificate: certificate, ordinary: connections(isFull: false), kept: connections(isFull: true)),
            configuration: ServerConfiguration(
                address: .hostname(listen.http.host, port: listen.http.port),
                availableConnectionsDelegate: .maximum(places.capacity, logger: quiet)),
            onServerRunning: { [onBound, logger, endpoint = listen.http] listener in
                try? await listener.eventLoop.submit {
                    try listener.pipeline.syncOperations.addHandler(AcceptPause(), position: .first)
                }.get()
                hasOpened.withLockedValue { $0 = true }
                logger.log(.doorOpened, ["door": "http", "address": "\(endpoint.bound(to: listener.localAddress))"])
                onBound(listener.localAddress?.port ?? 0)
            },
            eventLoopGroup: eventLoopGroup,
            logger: quiet)
        let result: Result<Void, any Error>
        do {
            result = .success(try await run(server))
        } catch is CancellationError {
            result = .failure(CancellationError())
        } catch  where hasOpened.withLockedValue({ $0 }) {
            result = .failure(error)
        } catch {
            result = .failure(SidecarError(cannotListen: "listen.http", at: listen.http, error))
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
            + FleetRoutes(coordinator: coordinator).routes
            + EventRoutes(coordinator: coordinator).routes
            + ProxyRoutes(coordinator: coordinator, upstreams: upstreams, isTLS: certificate != nil, logger: logger).routes
            + SmallestLockRoutes(coordinator: coordinator).routes
            + HealthRoutes(coordinator: coordinator, metrics: metrics).routes
    }

    private func connectionConfiguration(firstRequestTimeout: Duration) -> HTTP1Channel.Configuration {
        HTTP1Channel.Configuration(
            additionalChannelHandlers: [
                FirstRequestDeadline(timeout: TimeAmount(firstRequestTimeout)), PeerPresenceHandler(),
            ],
            idleTimeout: TimeAmount(idleTimeout),
            httpDecoderConfiguration: .init(
                maxHeaderFieldSize: 8 * 1024, maxHeaderListSize: 32 * 1024, maxHeaderFieldCount: 100))
    }
}

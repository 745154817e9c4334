package import Interlock
package import InterlockHTTP
package import Logging
internal import NIOCore
internal import SidecarConsole
package import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry

/// The APIs of a sidecar without listening sockets: the owner passes in accepted connections. Confined to the
/// coordinator's event loop.
package final class HostedListeners {
    package let resp: RESPDoorContext
    package let http: HTTPDoorContext
    package let grpc: GRPCDoorContext
    private let service: HTTPService

    /// Creates the APIs. Must be called on the coordinator's event loop.
    /// - Parameters:
    ///   - servers: the environment of the proxy's connections to upstreams.
    ///   - turns: distributes the event loop's time among all connections.
    package init(
        coordinator: Coordinator, access: AccessControl, servers: HTTPClientEnvironment, turns: ClientTurns, logger: Logger
    ) {
        let eventLoop = coordinator.eventLoop
        let listen = ListenSettings()
        let live = LiveHub(coordinator: coordinator, turns: turns)
        let setup = ListenerSetup(
            coordinator: coordinator, access: access, certificate: nil, listen: listen, metrics: PrometheusRegistry(),
            logger: logger, liveView: NIOLoopBound(live, eventLoop: eventLoop).source,
            turns: NIOLoopBound(turns, eventLoop: eventLoop))
        resp = RESPDoor(setup: setup).context()
        service = HTTPService(setup, live: live, servers: servers)
        http = service.context()
        grpc = GRPCDoor(setup: setup, endpoint: listen.http).context()
    }

    /// Stops accepting calls. Connections close once their calls are answered.
    package func goDown() {
        resp.goDown()
        http.goDown()
        grpc.goDown()
        service.close()
    }
}

package import Interlock
package import InterlockHTTP
package import Logging
internal import NIOCore

/// The APIs of a sidecar without listening sockets: the owner passes in accepted connections. Confined to the
/// coordinator's event loop.
package final class HostedListeners {
    package let resp: RESPDoorContext
    package let http: HTTPDoorContext
    package let grpc: GRPCDoorContext
    private let upstreams: Upstreams

    /// Called on the coordinator's event loop.
    /// - Parameters:
    ///   - servers: the surroundings of the proxy's connections.
    ///   - turns: shares the event loop's time among all connections.
    package init(
        coordinator: Coordinator, access: AccessControl, servers: HTTPClientEnvironment, turns: ClientTurns, logger: Logger
    ) {
        let eventLoop = coordinator.eventLoop
        let listen = ListenSettings()
        let setup = ListenerSetup(
            coordinator: coordinator, access: access, certificate: nil, listen: listen, metrics: PrometheusRegistry(),
            logger: logger, live: NIOLoopBound(LiveHub(coordinator: coordinator, turns: turns), eventLoop: eventLoop),
            turns: NIOLoopBound(turns, eventLoop: eventLoop), servers: servers)
        resp = RESPDoor(setup: setup).context()
        let shared = HTTPDoor(setup: setup).shared()
        http = shared.context.value
        upstreams = shared.upstreams.value
        grpc = GRPCDoor(setup: setup, endpoint: listen.http).context()
    }

    /// Stops accepting calls. Connections close once their calls are answered.
    package func goDown() {
        resp.goDown()
        http.goDown()
        grpc.goDown()
        upstreams.close()
    }
}

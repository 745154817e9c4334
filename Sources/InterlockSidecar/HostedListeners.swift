package import Interlock
package import InterlockHTTP
package import Logging
internal import NIOCore
internal import SidecarConsole
package import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry

/// The APIs of a sidecar without listening sockets. The owner accepts the connections and passes them in. Confined to
/// the coordinator's event loop.
package final class HostedListeners {
    package let resp: RESPListenerContext
    package let http: HTTPListenerContext
    package let grpc: GRPCListenerContext
    private let service: HTTPService

    /// Creates the APIs. Must be called on the coordinator's event loop.
    /// - Parameters:
    ///   - servers: the environment of the proxy's connections to upstreams.
    ///   - scheduler: the scheduler that divides the event loop's time among all connections.
    package init(
        coordinator: Coordinator, access: AccessControl, servers: HTTPClientEnvironment, scheduler: SliceScheduler, logger: Logger
    ) {
        let eventLoop = coordinator.eventLoop
        let listen = ListenSettings()
        let live = LiveHub(coordinator: coordinator, scheduler: scheduler)
        let setup = ListenerSetup(
            coordinator: coordinator, access: access, certificate: nil, listen: listen, metrics: PrometheusRegistry(),
            logger: logger, liveView: NIOLoopBound(live, eventLoop: eventLoop).source,
            scheduler: NIOLoopBound(scheduler, eventLoop: eventLoop))
        resp = RESPListener(setup: setup).context()
        service = HTTPService(setup, live: live, upstreamEnvironment: servers)
        http = service.context()
        grpc = GRPCListener(setup: setup, endpoint: listen.http).context()
    }

    /// Stops accepting calls. Each connection closes once its calls are complete.
    package func shutDown() {
        resp.shutDown()
        http.shutDown()
        grpc.shutDown()
        service.close()
    }
}

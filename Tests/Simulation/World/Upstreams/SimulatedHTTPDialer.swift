import InterlockHTTP
import NIOCore

/// Opens one sidecar's connections to the upstreams of its world, by host name.
struct SimulatedHTTPDialer: HTTPDialer, @unchecked Sendable {
    // Unchecked: a world runs on one thread.
    let timeline: WorldTimeline
    /// Returns the upstream with this name, and the path to it.
    let resolve: (String) -> (host: UpstreamHost, path: Path)?

    func dial(
        host name: String, port: Int, timeout: TimeAmount, on eventLoop: any EventLoop,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
    ) -> EventLoopFuture<any Channel> {
        guard let (host, path) = resolve(name) else {
            return eventLoop.makeFailedFuture(ConnectionAttempt.Refused(description: "cannot resolve \(name)"))
        }
        return ConnectionAttempt(timeline: timeline, path: path, eventLoop: eventLoop)
            .dial(timeout: timeout, accept: host.accept, initialize: initialize)
    }
}

package import Interlock
internal import InterlockCore
package import InterlockHTTP
package import NIOCore
package import SidecarTelemetry

/// The upstreams that the proxy has called so far, with their latest settings. Confined to the coordinator's event
/// loop.
package final class Upstreams {
    let coordinator: LoopBoundCoordinator
    private var upstreamsByService: [String: Upstream] = [:]
    let pacer: CallPacer
    /// The total size of the request bodies that calls have buffered for a resend.
    var replayBufferBytes = 0
    private let largeReadLimiter: LargeReadLimiter
    private let metrics: PrometheusRegistry
    private let eventLoop: any EventLoop
    private let environment: HTTPClientEnvironment

    package init(
        coordinator: LoopBoundCoordinator, eventLoop: any EventLoop, metrics: PrometheusRegistry,
        environment: HTTPClientEnvironment = .system
    ) {
        self.coordinator = coordinator
        self.eventLoop = eventLoop
        self.environment = environment
        self.metrics = metrics
        pacer = CallPacer(eventLoop: eventLoop)
        largeReadLimiter = LargeReadLimiter(eventLoop: eventLoop)
    }

    /// Returns the upstream of a service. Replaces it if its settings have changed.
    /// - Returns: `nil` if no calls can be made to it.
    func upstream(of service: String, _ settings: UpstreamSettings, concurrency: Int?) -> Upstream? {
        let existing = upstreamsByService[service]
        if let existing, existing.concurrency == concurrency, existing.settings == settings { return existing }
        existing?.pool.close()
        let upstream = Upstream(
            settings, concurrency: concurrency, times: existing?.times ?? UpstreamTimes(service: service, in: metrics),
            largeReadLimiter: largeReadLimiter, eventLoop: eventLoop, environment: environment)
        upstreamsByService[service] = upstream
        return upstream
    }

    /// Removes the upstreams of services that no longer have one.
    /// - Parameter lacksUpstream: whether a service has no upstream.
    package func removeAll(where lacksUpstream: (_ service: String) -> Bool) {
        for (service, upstream) in upstreamsByService where lacksUpstream(service) {
            upstreamsByService[service] = nil
            upstream.pool.close()
            metrics.remove(upstream.times.calls)
            metrics.remove(upstream.times.attempts)
        }
    }

    /// Forgets all upstreams, and closes their idle connections.
    package func close() {
        for upstream in upstreamsByService.values { upstream.pool.close() }
        upstreamsByService = [:]
    }
}

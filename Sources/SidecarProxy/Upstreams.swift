package import Interlock
internal import InterlockCore
package import InterlockHTTP
package import NIOCore
package import SidecarTelemetry

/// The upstreams that the proxy has called so far, with their latest settings. Confined to the coordinator's event
/// loop.
package final class Upstreams {
    let calls: CoordinatorCalls
    private var upstreamsByService: [String: Upstream] = [:]
    let pacer: CallPacer
    /// The total size of the request bodies that calls buffer for a resend, in bytes.
    var replayBufferBytes = 0
    private let largeReadLimiter: LargeReadLimiter
    private let metrics: PrometheusRegistry
    private let eventLoop: any EventLoop
    private let environment: HTTPClientEnvironment

    package init(
        calls: CoordinatorCalls, eventLoop: any EventLoop, metrics: PrometheusRegistry,
        environment: HTTPClientEnvironment = .system
    ) {
        self.calls = calls
        self.eventLoop = eventLoop
        self.environment = environment
        self.metrics = metrics
        pacer = CallPacer(eventLoop: eventLoop)
        largeReadLimiter = LargeReadLimiter(eventLoop: eventLoop)
    }

    /// Returns the upstream of a service. Replaces it if its settings have changed.
    /// - Returns: `nil` if no calls can be made to it.
    func upstream(of service: String, _ settings: UpstreamSettings, concurrency: Int?) -> Upstream? {
        let former = upstreamsByService[service]
        if let former, former.concurrency == concurrency, former.settings == settings { return former }
        former?.pool.close()
        let upstream = Upstream(
            settings, concurrency: concurrency, times: former?.times ?? UpstreamTimes(service: service, in: metrics),
            largeReadLimiter: largeReadLimiter, eventLoop: eventLoop, environment: environment)
        upstreamsByService[service] = upstream
        return upstream
    }

    /// Removes the upstreams of services that no longer have one.
    /// - Parameter hasUpstream: whether a service has an upstream.
    package func keep(_ hasUpstream: (String) -> Bool) {
        for (service, upstream) in upstreamsByService where !hasUpstream(service) {
            upstreamsByService[service] = nil
            upstream.pool.close()
            metrics.remove(upstream.times.calls)
            metrics.remove(upstream.times.attempts)
        }
    }

    /// Closes all idle connections.
    package func close() {
        for upstream in upstreamsByService.values { upstream.pool.close() }
        upstreamsByService = [:]
    }
}

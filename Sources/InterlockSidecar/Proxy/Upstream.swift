internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore

/// A service as the proxy calls it: its connections, its retry budget and its last good answers. Confined to the coordinator's event
/// loop.
///
/// It lives for as long as a call or a connection holds it, so that a reload cuts nothing off.
final class Upstream {
    /// Without `concurrency`, the callers' own connections bound the upstream's.
    private static let mostConnections = 16_384

    let settings: UpstreamSettings
    /// The times of the settings.
    let connectTimeout: TimeAmount
    let firstByteTimeout: TimeAmount
    let idleTimeout: TimeAmount
    let totalTimeout: TimeAmount?
    let concurrency: Int?
    let base: UpstreamBase
    let lastGood: LastGoodAnswers?
    let pool: HTTPConnectionPool
    let times: UpstreamTimes
    private var budget: RetryBudget

    /// `nil`: no calls can be made with these settings.
    init?(
        _ settings: UpstreamSettings, concurrency: Int?, times: UpstreamTimes, largeReads: LargeReads,
        eventLoop: any EventLoop, environment: HTTPClientEnvironment
    ) {
        guard let base = UpstreamBase(settings.url), let origin = try? Self.origin(base, settings) else { return nil }
        self.settings = settings
        connectTimeout = TimeAmount(settings.connectTimeout)
        firstByteTimeout = TimeAmount(settings.firstByteTimeout)
        idleTimeout = TimeAmount(settings.idleTimeout)
        totalTimeout = settings.totalTimeout.map { TimeAmount($0) }
        self.concurrency = concurrency
        self.base = base
        self.times = times
        lastGood =
            if case .lastGood(let maximumAge) = settings.fallback { LastGoodAnswers(maximumAge: maximumAge) } else { nil }
        budget = RetryBudget(settings: settings.retries)
        pool = HTTPConnectionPool(
            origin,
            settings: .init(
                connectTimeout: connectTimeout, idleTimeout: TimeAmount(settings.connections.idle),
                maximumAge: settings.connections.maximumAge.map { TimeAmount($0) },
                mostConnections: concurrency ?? Self.mostConnections),
            eventLoop: eventLoop, environment: environment, largeReads: largeReads)
    }

    private static func origin(_ base: UpstreamBase, _ settings: UpstreamSettings) throws -> HTTPOrigin {
        HTTPOrigin(
            host: base.host, port: base.port,
            tls: base.isTLS
                ? try HTTPOrigin.clientTLS(
                    certificateAuthority: settings.certificateAuthority, speaksHTTP2: settings.speaksHTTP2) : nil,
            speaksHTTP2: settings.speaksHTTP2)
    }

    func noteCall() { budget.noteCall() }

    func takeRetry() -> Bool {
        budget.takeRetry(now: Instant(nanoseconds: pool.eventLoop.uptime))
    }
}

/// How long calls through the proxy took, and the tries that they consisted of.
struct UpstreamTimes {
    /// From a call's head to its answer's.
    let calls: TimeHistogram
    /// From the beginning of a try to the head of what it came to, or its failure.
    let tries: TimeHistogram

    init(service: String, in metrics: PrometheusRegistry) {
        calls = metrics.latencies("interlock_proxy_request_seconds", [("service", service)])
        tries = metrics.latencies("interlock_upstream_request_seconds", [("service", service)])
    }
}

/// The services that the proxy has called so far, each as it is configured now. Confined to the coordinator's event loop.
final class Upstreams {
    let calls: CoordinatorCalls
    private var table: [String: Upstream] = [:]
    let pace: ProxyPace
    /// The size of the request bodies that calls keep, in bytes.
    var keptBytes = 0
    private let largeReads: LargeReads
    private let metrics: PrometheusRegistry
    private let eventLoop: any EventLoop
    private let environment: HTTPClientEnvironment
    /// Before a failed call is tried again, in milliseconds.
    private static let pauses: ClosedRange<Double> = 5...50

    init(
        calls: CoordinatorCalls, eventLoop: any EventLoop, metrics: PrometheusRegistry,
        environment: HTTPClientEnvironment = .system
    ) {
        self.calls = calls
        self.eventLoop = eventLoop
        self.environment = environment
        self.metrics = metrics
        pace = ProxyPace(eventLoop: eventLoop)
        largeReads = LargeReads(eventLoop: eventLoop)
    }

    /// The upstream of a service; a new one when its settings have changed.
    /// - Returns: `nil`: no calls can be made to it.
    func upstream(of service: String, _ settings: UpstreamSettings, concurrency: Int?) -> Upstream? {
        let former = table[service]
        if let former, former.concurrency == concurrency, former.settings == settings { return former }
        former?.pool.close()
        let upstream = Upstream(
            settings, concurrency: concurrency, times: former?.times ?? UpstreamTimes(service: service, in: metrics),
            largeReads: largeReads, eventLoop: eventLoop, environment: environment)
        table[service] = upstream
        return upstream
    }

    /// Draws the pause before a call is tried again, so that calls that failed together come apart.
    func drawPause() -> TimeAmount {
        let milliseconds = Self.pauses.lowerBound + (Self.pauses.upperBound - Self.pauses.lowerBound) * environment.random()
        return .nanoseconds(Int64(milliseconds * 1_000_000))
    }

    /// Drops the services that no longer have an upstream.
    func keep(_ hasUpstream: (String) -> Bool) {
        for (service, upstream) in table where !hasUpstream(service) {
            table[service] = nil
            upstream.pool.close()
            metrics.remove(upstream.times.calls)
            metrics.remove(upstream.times.tries)
        }
    }

    /// Closes all connections that no call uses.
    func close() {
        for upstream in table.values { upstream.pool.close() }
        table = [:]
    }
}

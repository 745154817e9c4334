internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry

/// A service as the proxy calls it: its connections, its retry budget and its last good answers. Confined to the coordinator's event
/// loop.
///
/// It lives for as long as a call or a connection holds it, so that a reload cuts nothing off.
final class Upstream: RetrySource {
    /// Without `concurrency`, the callers' own connections bound the upstream's.
    private static let mostConnections = 16_384

    /// The bounds of the pause before a retry, in milliseconds.
    private static let pauses: ClosedRange<Double> = 5...50

    let settings: UpstreamSettings
    let terms: ProxiedCallStateMachine.Terms
    let concurrency: Int?
    let base: UpstreamBase
    let lastGood: LastGoodAnswers?
    let pool: HTTPConnectionPool
    let times: UpstreamTimes
    private var budget: RetryBudget
    private let environment: HTTPClientEnvironment

    /// `nil`: no calls can be made with these settings.
    init?(
        _ settings: UpstreamSettings, concurrency: Int?, times: UpstreamTimes, largeReads: LargeReads,
        eventLoop: any EventLoop, environment: HTTPClientEnvironment
    ) {
        guard let base = UpstreamBase(settings.url), let origin = try? Self.origin(base, settings) else { return nil }
        self.settings = settings
        terms = .init(settings)
        self.concurrency = concurrency
        self.base = base
        self.times = times
        lastGood =
            if case .lastGood(let maximumAge) = settings.fallback { LastGoodAnswers(maximumAge: maximumAge) } else { nil }
        budget = RetryBudget(settings: settings.retries)
        self.environment = environment
        pool = HTTPConnectionPool(
            origin,
            settings: .init(
                connectTimeout: TimeAmount(settings.connectTimeout), idleTimeout: TimeAmount(settings.connections.idle),
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

    func drawPause() -> Int64 {
        let milliseconds = Self.pauses.lowerBound + (Self.pauses.upperBound - Self.pauses.lowerBound) * environment.random()
        return Int64(milliseconds * 1_000_000)
    }

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

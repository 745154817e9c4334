internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry

/// The proxy's view of a service: its connections, its retry budget and its last good responses. Confined to the
/// coordinator's event loop.
///
/// Calls and connections retain their upstream, so that a reload does not interrupt them.
final class Upstream: RetrySource {
    /// The maximum number of connections if `concurrency` is not set. In practice, there are at most as many
    /// connections as clients.
    private static let maximumConnections = 16_384

    /// The range of the pause before a retry.
    private static let pauseMillisecondsRange: ClosedRange<Double> = 5...50

    let settings: UpstreamSettings
    let policy: ProxiedCallStateMachine.Policy
    let concurrency: Int?
    let base: UpstreamBase
    let lastGood: LastGoodResponses?
    let pool: HTTPConnectionPool
    let times: UpstreamTimes
    private var budget: RetryBudget
    private let environment: HTTPClientEnvironment

    /// Returns `nil` if no calls can be made with these settings.
    init?(
        _ settings: UpstreamSettings, concurrency: Int?, times: UpstreamTimes, largeReadLimiter: LargeReadLimiter,
        eventLoop: any EventLoop, environment: HTTPClientEnvironment
    ) {
        guard let base = UpstreamBase(settings.url), let origin = try? Self.origin(base, settings) else { return nil }
        self.settings = settings
        policy = .init(settings)
        self.concurrency = concurrency
        self.base = base
        self.times = times
        lastGood =
            if case .lastGood(let maximumAge) = settings.fallback { LastGoodResponses(maximumAge: maximumAge) } else { nil }
        budget = RetryBudget(settings: settings.retries)
        self.environment = environment
        pool = HTTPConnectionPool(
            origin,
            settings: .init(
                connectTimeout: TimeAmount(settings.connectTimeout), idleTimeout: TimeAmount(settings.connections.idle),
                maximumAge: settings.connections.maximumAge.map { TimeAmount($0) },
                maximumConnections: concurrency ?? Self.maximumConnections),
            eventLoop: eventLoop, environment: environment, largeReadLimiter: largeReadLimiter)
    }

    private static func origin(_ base: UpstreamBase, _ settings: UpstreamSettings) throws -> HTTPOrigin {
        HTTPOrigin(
            host: base.host, port: base.port,
            tls: base.isTLS
                ? try HTTPOrigin.clientTLS(
                    certificateAuthority: settings.certificateAuthority, speaksHTTP2: settings.speaksHTTP2) : nil,
            speaksHTTP2: settings.speaksHTTP2)
    }

    /// Counts a call that is not a retry, which increases the retry budget.
    func countCall() { budget.countCall() }

    func drawPauseNanoseconds() -> Int64 {
        let range = Self.pauseMillisecondsRange
        let milliseconds = range.lowerBound + (range.upperBound - range.lowerBound) * environment.random()
        return Int64(milliseconds * 1_000_000)
    }

    func takeRetry() -> Bool {
        budget.takeRetry(now: Instant(nanoseconds: pool.eventLoop.uptimeNanoseconds))
    }
}

/// The histograms of the durations of proxied calls and of their attempts.
struct UpstreamTimes {
    /// From the head of a call to the head of its response.
    let calls: TimeHistogram
    /// From the beginning of an attempt to the head of its response, or to its failure.
    let attempts: TimeHistogram

    init(service: String, in metrics: PrometheusRegistry) {
        calls = metrics.latencies("interlock_proxy_request_seconds", [("service", service)])
        attempts = metrics.latencies("interlock_upstream_request_seconds", [("service", service)])
    }
}

extension UpstreamSettings {
    /// The maximum time that a call waits to begin: the total timeout, or the idle timeout if there is no total one.
    var maximumPacerWait: Duration { totalTimeout ?? idleTimeout }
}

extension LimitPolicy {
    /// The maximum time that a call waits for a permit.
    var permitWaitMilliseconds: Int64 { action == .deny ? 0 : maximumWait.wholeMilliseconds }
}

internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Counts a route's responses by class of status, and measures their latency. Created once for each route, so that
/// counting needs no lookup.
struct HTTPRouteCounters: Sendable {
    /// The first digit of the lowest status that a response can have.
    private let firstClass: Int
    /// The counters by class of status, starting with `firstClass`.
    private let counters: [Counter]
    private let latencies: TimeHistogram

    init(_ route: HTTPRoute, in metrics: PrometheusRegistry) {
        // An upstream may switch protocols, with status 101. Every other final response has a status of 200 or more.
        firstClass = if case .relay = route.handler { 1 } else { 2 }
        let method = route.method?.rawValue ?? "any"
        latencies = metrics.latencies("interlock_http_request_seconds", [("method", method), ("route", route.path)])
        counters = (firstClass...5).map { digit in
            Counter(
                label: "interlock_http_requests_total",
                dimensions: [("method", method), ("route", route.path), ("status", "\(digit)xx")],
                factory: metrics)
        }
    }

    /// Records a response.
    /// - Parameter time: the time from the request's head to its response.
    func recordResponse(_ status: HTTPResponseStatus, in time: TimeAmount, trace: TraceContext?) {
        latencies.recordNanoseconds(time.nanoseconds, trace: trace)
        let index = Int(status.code) / 100 - firstClass
        guard counters.indices.contains(index) else { return }
        counters[index].increment()
    }
}

/// Counts the requests that were rejected before they reached a route, by the problem's code.
struct HTTPRefusalCounters: Sendable {
    private let counters: [HTTPProblem.Code: Counter]

    init(in metrics: PrometheusRegistry) {
        counters = Dictionary(
            uniqueKeysWithValues: HTTPProblem.Code.allCases.map { code in
                (code, Counter(label: "interlock_http_refusals_total", dimensions: [("code", code.rawValue)], factory: metrics))
            })
    }

    func count(_ code: HTTPProblem.Code) { counters[code]?.increment() }
}

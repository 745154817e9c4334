internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Counters of a route's responses by class of status, and a histogram of their latencies. Made once per route, so that
/// counting needs no lookup.
struct HTTPRouteCounters: Sendable {
    private let firstClass: Int
    private let classes: [Counter]
    private let times: TimeHistogram

    init(_ route: HTTPRoute, in metrics: PrometheusRegistry) {
        // An upstream may change the protocol. No other response ends with a status below 200.
        firstClass = if case .relay = route.handler { 1 } else { 2 }
        let method = route.method?.rawValue ?? "any"
        times = metrics.latencies("interlock_http_request_seconds", [("method", method), ("route", route.path)])
        classes = (firstClass...5).map { digit in
            Counter(
                label: "interlock_http_requests_total",
                dimensions: [("method", method), ("route", route.path), ("status", "\(digit)xx")],
                factory: metrics)
        }
    }

    /// - Parameter time: the time from the request's head to its response.
    func answered(_ status: HTTPResponseStatus, in time: TimeAmount, trace: TraceContext?) {
        times.recordNanoseconds(time.nanoseconds, trace: trace)
        let index = Int(status.code) / 100 - firstClass
        guard classes.indices.contains(index) else { return }
        classes[index].increment()
    }
}

/// Counters of requests that were rejected before they reached a route, by the problem's code.
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

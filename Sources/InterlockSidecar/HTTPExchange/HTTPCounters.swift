internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import NIOHTTP1

/// How often a route was answered, by class of status, and how long that took. Made once for each route, so that counting looks nothing up.
struct HTTPRouteCounters: Sendable {
    private let firstClass: Int
    private let classes: [Counter]
    private let times: TimeHistogram

    init(_ route: HTTPRoute, in metrics: PrometheusRegistry) {
        // An upstream may change the protocol; nothing else ends with less than 200.
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

    /// - Parameter began: when its head had come.
    func answered(_ status: HTTPResponseStatus, since began: NIODeadline, trace: TraceContext?) {
        times.recordNanoseconds((NIODeadline.now() - began).nanoseconds, trace: trace)
        let index = Int(status.code) / 100 - firstClass
        guard classes.indices.contains(index) else { return }
        classes[index].increment()
    }
}

/// How often a request was refused before it came to a route, by the problem's code.
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

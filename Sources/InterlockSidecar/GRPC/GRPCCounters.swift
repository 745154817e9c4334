internal import CoreMetrics
internal import NIOCore

/// How often a method was answered, by status, and how long that took. Statuses are counted from their first on.
final class GRPCCounters {
    private let method: String
    private let metrics: PrometheusRegistry
    private let times: TimeHistogram
    private var statuses: [GRPCStatus: Counter] = [:]

    init(method: String, in metrics: PrometheusRegistry) {
        self.method = method
        self.metrics = metrics
        times = metrics.latencies("interlock_grpc_request_seconds", [("method", method)])
    }

    /// - Parameter began: when its head had come.
    func answered(_ status: GRPCStatus, since began: NIODeadline) {
        times.recordNanoseconds((NIODeadline.now() - began).nanoseconds)
        if let known = statuses[status] { return known.increment() }
        let counter = Counter(
            label: "interlock_grpc_requests_total", dimensions: [("method", method), ("status", "\(status)")], factory: metrics)
        statuses[status] = counter
        counter.increment()
    }
}

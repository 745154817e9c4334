internal import CoreMetrics
internal import NIOCore
internal import SidecarTelemetry

/// A method of the gRPC API.
final class GRPCMethod {
    enum Handler {
        /// Called with the one message of the request.
        case message((_ call: GRPCCall, _ message: ByteBuffer) -> Void)
        /// Called when a call of many messages begins.
        case stream((_ call: GRPCCall) -> any GRPCRequestStream)
    }

    /// `/package.Service/Method`.
    let path: String
    let counters: GRPCCounters
    let handler: Handler

    init(_ path: String, in metrics: PrometheusRegistry, handler: Handler) {
        self.path = path
        self.handler = handler
        counters = GRPCCounters(method: path, in: metrics)
    }

    convenience init(
        _ path: String, in metrics: PrometheusRegistry, handle: @escaping (_ call: GRPCCall, _ message: ByteBuffer) -> Void
    ) {
        self.init(path, in: metrics, handler: .message(handle))
    }
}

/// Counts the responses of a method by status and measures their latency. A status appears with its first response.
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

    /// - Parameter time: the time from the call's headers to its response.
    func answered(_ status: GRPCStatus, in time: TimeAmount) {
        times.recordNanoseconds(time.nanoseconds)
        if let known = statuses[status] { return known.increment() }
        let counter = Counter(
            label: "interlock_grpc_requests_total", dimensions: [("method", method), ("status", "\(status)")], factory: metrics)
        statuses[status] = counter
        counter.increment()
    }
}

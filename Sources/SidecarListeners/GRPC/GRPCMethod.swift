internal import CoreMetrics
internal import NIOCore
internal import SidecarTelemetry

/// A method of the gRPC API.
final class GRPCMethod {
    enum Handler {
        /// Handles a request of one message.
        case message((_ call: GRPCCall, _ message: ByteBuffer) -> Void)
        /// Begins a request of many messages, and returns their receiver.
        case stream((_ call: GRPCCall) -> any GRPCRequestStream)
    }

    /// The path of the method's requests: `/package.Service/Method`.
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

/// Counts the responses of a method by status, and measures their latency. A status's counter appears with its first
/// response.
final class GRPCCounters {
    private let method: String
    private let metrics: PrometheusRegistry
    private let latencies: TimeHistogram
    private var counters: [GRPCStatus: Counter] = [:]

    init(method: String, in metrics: PrometheusRegistry) {
        self.method = method
        self.metrics = metrics
        latencies = metrics.latencies("interlock_grpc_request_seconds", [("method", method)])
    }

    /// Records a response.
    /// - Parameter time: the time from the call's headers to its response.
    func recordResponse(_ status: GRPCStatus, in time: TimeAmount) {
        latencies.recordNanoseconds(time.nanoseconds)
        if let counter = counters[status] { return counter.increment() }
        let counter = Counter(
            label: "interlock_grpc_requests_total", dimensions: [("method", method), ("status", "\(status)")], factory: metrics)
        counters[status] = counter
        counter.increment()
    }
}

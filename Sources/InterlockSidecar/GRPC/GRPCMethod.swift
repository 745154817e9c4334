internal import CoreMetrics
internal import NIOCore
internal import NIOHTTP2

/// A call of the gRPC door: who asked, and on which stream. It is answered once, or told piece by piece.
struct GRPCCall: Equatable {
    let connection: GRPCConnection
    let stream: HTTP2StreamID
    let method: GRPCMethod
    let began: NIODeadline

    static func == (left: GRPCCall, right: GRPCCall) -> Bool {
        left.connection === right.connection && left.stream == right.stream
    }

    /// The one message of the answer, and the end of the call.
    func answer(_ message: some GRPCMessage) { connection.answer(self, message) }

    /// Another message of an answer that goes on.
    func tell(_ message: some GRPCMessage) { connection.tell(self, message) }

    /// The end of a call that was told all there is.
    func end() { connection.end(self, .ok, "") }

    /// The host that asks.
    var address: String { connection.address }

    func fail(_ status: GRPCStatus, _ message: String) { connection.end(self, status, message) }

    /// The client has not given it up.
    var isAwaited: Bool { connection.isAwaited(self) }

    func failGoingDown() { fail(.unavailable, "this sidecar is going down") }

    /// Calls `action` when the sidecar goes down before the call is over.
    func whenGoingDown(_ action: @escaping () -> Void) { connection.whenGoingDown(stream, action) }

    /// Calls `action` when the client gives the call up, or leaves, before it is over.
    func whenGivenUp(_ action: @escaping () -> Void) { connection.whenGivenUp(stream, action) }
}

/// What can be written as a message.
protocol GRPCMessage {
    func write(to buffer: inout ByteBuffer) throws
}

/// The request of a call that has many messages.
protocol GRPCRequestStream: AnyObject {
    /// Another message has come.
    func received(_ message: ByteBuffer)
    /// The client sends no further one.
    func ended()
}

/// A method of the gRPC door.
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

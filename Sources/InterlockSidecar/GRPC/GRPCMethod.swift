internal import NIOCore
internal import NIOHTTP2

/// A call of the gRPC door: who asked, and on which stream. It is answered once, or told piece by piece.
struct GRPCCall {
    let connection: GRPCConnection
    let stream: HTTP2StreamID
    let method: GRPCMethod
    let began: NIODeadline

    /// The one message of the answer, and the end of the call.
    func answer(_ message: some GRPCMessage) { connection.answer(self, message) }

    /// Another message of an answer that goes on.
    func tell(_ message: some GRPCMessage) { connection.tell(self, message) }

    func fail(_ status: GRPCStatus, _ message: String) { connection.end(self, status, message) }

    /// Calls `action` when the client gives the call up, or leaves, before it is over.
    func whenGivenUp(_ action: @escaping () -> Void) { connection.whenGivenUp(stream, action) }
}

/// What can be written as a message.
protocol GRPCMessage {
    func write(to buffer: inout ByteBuffer) throws
}

/// A method of the gRPC door, called with the one message of its request.
final class GRPCMethod {
    /// `/package.Service/Method`.
    let path: String
    let counters: GRPCCounters
    let handle: (_ call: GRPCCall, _ message: ByteBuffer) -> Void

    init(_ path: String, in metrics: PrometheusRegistry, handle: @escaping (_ call: GRPCCall, _ message: ByteBuffer) -> Void) {
        self.path = path
        self.handle = handle
        counters = GRPCCounters(method: path, in: metrics)
    }
}

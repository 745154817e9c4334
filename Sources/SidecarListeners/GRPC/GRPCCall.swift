internal import NIOCore
internal import NIOHTTP2
internal import SwiftProtobuf

/// A call of the gRPC API. Its response is one message or a stream of messages. Confined to the coordinator's event
/// loop.
final class GRPCCall {
    unowned let connection: GRPCConnection
    let stream: HTTP2StreamID
    let method: GRPCMethod
    /// The time when the call's headers arrived.
    let began: NIODeadline
    /// The caller; `nil` if the call was refused.
    var caller: AccessControl.Caller?
    /// Whether the call has ended; nothing more is sent for it.
    private(set) var isOver = false

    /// The name of the API key of a streaming request; empty if no key is required.
    var client = ""

    // State that the connection keeps per call.
    var received = ByteBuffer()
    /// The time when the first part of an incomplete streamed message arrived; `nil` if there is none.
    var partialMessageSince: NIODeadline?
    /// The number of consecutive messages without content.
    var consecutiveEmptyMessages = 0
    /// Whether the client has sent the complete request.
    var isRequestComplete = false
    /// Whether the response's headers are written.
    var hasSentHeaders = false
    /// Receives the messages of a streaming request.
    var reader: (any GRPCRequestStream)?
    /// The number of response messages that are not sent yet.
    var unsent = 0
    /// Called if the client cancels the call or disconnects before it is over.
    var onCancellation: (() -> Void)?
    /// Called if the sidecar shuts down before the call is over.
    var onShutdown: (() -> Void)?

    init(connection: GRPCConnection, stream: HTTP2StreamID, method: GRPCMethod, began: NIODeadline) {
        self.began = began
        self.connection = connection
        self.stream = stream
        self.method = method
    }

    /// Sends the only message of the response and ends the call.
    func respond(_ message: some GRPCMessage) { if !isOver { connection.respond(to: self, message) } }

    /// Sends one message of a streaming response.
    func send(_ message: some GRPCMessage) { if !isOver { connection.send(self, message) } }

    /// Ends a streaming response.
    func finish() { if !isOver { connection.end(self, .ok, "") } }

    func fail(_ status: GRPCStatus, _ message: String) { if !isOver { connection.end(self, status, message) } }
    func failShuttingDown() { fail(.unavailable, "this sidecar is shutting down") }

    /// Marks the call as over and releases its callbacks.
    func end() {
        isOver = true
        reader = nil
        onCancellation = nil
        onShutdown = nil
    }
}

extension GRPCCall {
    /// Decodes a message; `nil` if it is invalid and the call has failed.
    func request<Request: Message>(_ type: Request.Type, _ message: ByteBuffer) -> Request? {
        do {
            return try message.withUnsafeReadableBytes { bytes in
                var options = BinaryDecodingOptions()
                options.discardUnknownFields = true
                return try Request(serializedBytes: Array(bytes), options: options)
            }
        } catch {
            fail(.invalidArgument, "the message is not a valid \(Request.protoMessageName)")
            return nil
        }
    }
}

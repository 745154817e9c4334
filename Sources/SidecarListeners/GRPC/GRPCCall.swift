internal import NIOCore
internal import NIOHTTP2
internal import SwiftProtobuf

/// A call of the gRPC API. Its response is one message or a stream of messages. Confined to the coordinator's event
/// loop.
final class GRPCCall {
    unowned let connection: GRPCConnection
    let streamID: HTTP2StreamID
    let method: GRPCMethod
    /// The arrival time of the call's headers.
    let startedAt: NIODeadline
    /// The caller; `nil` if the call was refused.
    var caller: AccessControl.Caller?
    /// Whether the call has ended. Nothing is sent for it afterwards.
    private(set) var hasEnded = false

    /// The name of the API key of a streaming request; empty if no key is required.
    var clientName = ""

    // The rest is state that the connection keeps for each call.

    /// The received bytes that are not delivered yet.
    var receivedBytes = ByteBuffer()
    /// The arrival time of the first part of an incomplete streamed message; `nil` if there is none.
    var partialMessageSince: NIODeadline?
    /// The number of consecutive messages without content.
    var consecutiveEmptyMessageCount = 0
    /// Whether the client has sent the complete request.
    var isRequestComplete = false
    /// Whether the response's headers are written.
    var hasSentHeaders = false
    /// Receives the messages of a streaming request.
    var reader: (any GRPCRequestStream)?
    /// The number of response messages that are not sent yet.
    var unsentCount = 0
    /// Called if the client cancels the call, or disconnects before the call ends.
    var onCancellation: (() -> Void)?
    /// Called if the sidecar shuts down before the call ends.
    var onShutdown: (() -> Void)?

    init(connection: GRPCConnection, streamID: HTTP2StreamID, method: GRPCMethod, startedAt: NIODeadline) {
        self.startedAt = startedAt
        self.connection = connection
        self.streamID = streamID
        self.method = method
    }

    /// Sends the only message of the response and ends the call.
    func respond(_ message: some GRPCMessage) { if !hasEnded { connection.respond(to: self, message) } }

    /// Sends one message of a streaming response.
    func send(_ message: some GRPCMessage) { if !hasEnded { connection.send(self, message) } }

    /// Ends a streaming response.
    func finish() { if !hasEnded { connection.end(self, .ok, "") } }

    /// Ends the call with an error.
    func fail(_ status: GRPCStatus, _ message: String) { if !hasEnded { connection.end(self, status, message) } }
    func failShuttingDown() { fail(.unavailable, "this sidecar is shutting down") }

    /// Marks the call as ended, and releases its reader and callbacks.
    func end() {
        hasEnded = true
        reader = nil
        onCancellation = nil
        onShutdown = nil
    }
}

extension GRPCCall {
    /// Decodes a message, or fails the call and returns `nil` if the message is invalid.
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

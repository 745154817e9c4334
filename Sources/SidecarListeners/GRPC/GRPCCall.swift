internal import NIOCore
internal import NIOHTTP2
internal import SwiftProtobuf

/// A call of the gRPC door: who asked, and on which stream. It is answered once, or told piece by piece. Confined to the coordinator's
/// event loop.
final class GRPCCall {
    unowned let connection: GRPCConnection
    let stream: HTTP2StreamID
    let method: GRPCMethod
    /// When its head had come.
    let began: NIODeadline
    /// The caller; `nil` if the call was refused.
    var caller: AccessControl.Caller?
    /// Nothing more is said of it.
    private(set) var isOver = false

    /// The name of the API key, of a call of many messages; empty if no key is required.
    var client = ""

    // What its connection keeps of it.
    var received = ByteBuffer()
    /// Since when a part of a message waits for the rest, of a call that has many; `nil`: none does.
    var partSince: NIODeadline?
    /// How many of its messages have said nothing since one did.
    var silences = 0
    /// The client sends no more of it.
    var isRead = false
    /// The answer's head is written.
    var hasBegun = false
    /// Takes the messages of a call that has many.
    var reader: (any GRPCRequestStream)?
    /// How many messages of the answer have not left.
    var unsent = 0
    /// Called when the client gives the call up, or leaves, before it is over.
    var whenGivenUp: (() -> Void)?
    /// Called when the sidecar goes down before the call is over.
    var whenGoingDown: (() -> Void)?

    init(connection: GRPCConnection, stream: HTTP2StreamID, method: GRPCMethod, began: NIODeadline) {
        self.began = began
        self.connection = connection
        self.stream = stream
        self.method = method
    }

    /// The one message of the answer, and the end of the call.
    func answer(_ message: some GRPCMessage) { if !isOver { connection.answer(self, message) } }

    /// Another message of an answer that goes on.
    func tell(_ message: some GRPCMessage) { if !isOver { connection.tell(self, message) } }

    /// The end of a call that was told all there is.
    func finish() { if !isOver { connection.end(self, .ok, "") } }

    func fail(_ status: GRPCStatus, _ message: String) { if !isOver { connection.end(self, status, message) } }
    func failGoingDown() { fail(.unavailable, "this sidecar is going down") }

    /// Its connection has no more to do with it.
    func end() {
        isOver = true
        reader = nil
        whenGivenUp = nil
        whenGoingDown = nil
    }
}

extension GRPCCall {
    /// What a message says; `nil`, and the call has failed: it is none.
    func request<Request: Message>(_ type: Request.Type, _ message: ByteBuffer) -> Request? {
        do {
            return try message.withUnsafeReadableBytes { bytes in
                var options = BinaryDecodingOptions()
                options.discardUnknownFields = true
                return try Request(serializedBytes: Array(bytes), options: options)
            }
        } catch {
            fail(.invalidArgument, "the message is no \(Request.protoMessageName)")
            return nil
        }
    }
}

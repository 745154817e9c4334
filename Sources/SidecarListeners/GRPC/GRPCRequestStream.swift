internal import NIOCore

/// The receiver of a streaming request.
protocol GRPCRequestStream: AnyObject {
    /// Called with each message.
    /// - Returns: whether the message had content.
    func received(_ message: ByteBuffer) -> Bool
    /// Called when the client has sent its last message.
    func ended()
}

internal import NIOCore

/// The receiver of the messages of a streaming request.
protocol GRPCRequestStream: AnyObject {
    /// Called with each message.
    /// - Returns: whether the message had content.
    func messageReceived(_ message: ByteBuffer) -> Bool
    /// Called when the client has sent its last message.
    func requestEnded()
}

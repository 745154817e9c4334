internal import NIOCore

/// The request of a call that has many messages.
protocol GRPCRequestStream: AnyObject {
    /// Another message has come.
    /// - Returns: whether it said anything.
    func received(_ message: ByteBuffer) -> Bool
    /// The client sends no further one.
    func ended()
}

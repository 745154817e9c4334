package import NIOCore
package import NIOHTTP1

/// Receives the events of one request to a server. All methods are called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// The request may be sent.
    func connected(_ connection: HTTPClientConnection)
    /// No connection was available; nothing was sent.
    func notConnected(_ error: any Error)
    /// An informational answer has come; the answer, or another informational one, follows.
    func receivedInformational(_ head: HTTPResponseHead)
    /// The answer begins.
    func received(_ head: HTTPResponseHead)
    func received(_ part: ByteBuffer)
    /// The answer is complete. The connection no longer belongs to this request.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// The connection ended before the answer was complete; the error may be an `HTTPClientConnection.Interruption`.
    func failed(_ error: any Error)
    /// Everything that has arrived so far was delivered.
    func receivedAllThereIs()
    /// The connection has started or stopped accepting more of the request.
    func writabilityChanged(_ isWritable: Bool)
    /// The server has switched to the protocol that the request offered; the connection waits for `handOver` or
    /// `abandon`.
    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

extension HTTPClientReceiver {
    package func receivedInformational(_ head: HTTPResponseHead) {}

    package func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        connection.close()
    }
}

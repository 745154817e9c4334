package import NIOCore
package import NIOHTTP1

/// Receives the events of one request to a server. All methods are called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// Handles a connection on which the request may be sent.
    func connected(_ connection: HTTPClientConnection)
    /// Handles the failure to find a connection; nothing was sent.
    func notConnected(_ error: any Error)
    /// Handles an informational answer; the answer, or another informational one, follows.
    func receivedInformational(_ head: HTTPResponseHead)
    /// Handles the head of the answer.
    func received(_ head: HTTPResponseHead)
    func received(_ part: ByteBuffer)
    /// Handles the end of the answer. The connection no longer belongs to this request.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// Handles the end of the connection before the answer was complete; the error may be an
    /// `HTTPClientConnection.Interruption`.
    func failed(_ error: any Error)
    /// Handles the end of a read, after all its bytes were delivered.
    func readComplete()
    /// Handles a change in whether the connection accepts more of the request.
    func writabilityChanged(_ isWritable: Bool)
    /// Handles the server's switch to the protocol that the request offered; the connection waits for `handOver` or
    /// `abandon`.
    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

extension HTTPClientReceiver {
    package func receivedInformational(_ head: HTTPResponseHead) {}

    package func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        connection.close()
    }
}

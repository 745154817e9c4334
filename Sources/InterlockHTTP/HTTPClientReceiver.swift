package import NIOCore
package import NIOHTTP1

/// Receives the events of one request to a server. All methods are called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// Called when the request may be sent on `connection`.
    func connected(_ connection: HTTPClientConnection)
    /// Called when no connection could be found; nothing was sent.
    func notConnected(_ error: any Error)
    /// Called with an informational response; the response, or another informational one, follows.
    func receivedInformational(_ head: HTTPResponseHead)
    /// Called with the head of the response.
    func received(_ head: HTTPResponseHead)
    func received(_ part: ByteBuffer)
    /// Called at the end of the response. The connection no longer belongs to this request.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// Called when the connection ends before the response is complete; the error may be an
    /// `HTTPClientConnection.Interruption`.
    func failed(_ error: any Error)
    /// Called when a read has ended and all its bytes were delivered.
    func readComplete()
    /// Called when the connection starts or stops accepting more of the request.
    func writabilityChanged(_ isWritable: Bool)
    /// Called when the server switches to the protocol that the request offered; the connection waits for `handOver` or
    /// `abandon`.
    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

extension HTTPClientReceiver {
    package func receivedInformational(_ head: HTTPResponseHead) {}

    package func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        connection.close()
    }
}

package import NIOCore
package import NIOHTTP1

/// Receives the events of one request to a server. All methods are called on the event loop of its connection.
package protocol HTTPClientReceiver: AnyObject {
    /// Called when the request may be sent on `connection`.
    func connectionEstablished(_ connection: HTTPClientConnection)
    /// Called when no connection could be opened. Nothing was sent.
    func connectionFailed(_ error: any Error)
    /// Called with the head of an informational response. Another one, or the response itself, follows.
    func informationalHeadReceived(_ head: HTTPResponseHead)
    /// Called with the head of the response.
    func headReceived(_ head: HTTPResponseHead)
    /// Called with each part of the response's body.
    func partReceived(_ part: ByteBuffer)
    /// Called at the end of the response. The connection no longer belongs to this request.
    func endReceived(_ trailers: HTTPHeaders?)
    /// Called when the connection ends before the response is complete; the error may be an
    /// `HTTPClientConnection.Interruption`.
    func requestFailed(_ error: any Error)
    /// Called when all bytes of a read were delivered.
    func readCompleted()
    /// Called when the connection starts or stops accepting more of the request.
    func writabilityChanged(_ isWritable: Bool)
    /// Called when the server switches to the protocol that the request offered. The receiver must call `handOver` or
    /// `abandon` on the connection.
    func protocolSwitched(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

extension HTTPClientReceiver {
    package func informationalHeadReceived(_ head: HTTPResponseHead) {}

    package func protocolSwitched(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        connection.close()
    }
}

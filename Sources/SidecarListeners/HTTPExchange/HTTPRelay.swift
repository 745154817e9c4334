package import NIOCore
package import NIOHTTP1

/// Responds to a request whose body is read in parts. All methods are called on the event loop of the client's
/// connection.
package protocol HTTPRelay: AnyObject {
    /// Called once, before everything else.
    func start()
    /// Called with each part of the request's body.
    func received(_ part: ByteBuffer)
    /// Called when the request is complete.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// Called when everything that has arrived was delivered.
    func readComplete()
    /// Called when the client starts or stops accepting more of the response.
    func writabilityChanged(_ isWritable: Bool)
    /// Called when the deadline that `setTimer` set has passed.
    func timerFired()
}

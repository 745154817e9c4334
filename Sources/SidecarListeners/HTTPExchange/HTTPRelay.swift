package import NIOCore
package import NIOHTTP1

/// The handler of a request whose body is read in parts. All methods are called on the event loop of the client's
/// connection.
package protocol HTTPRelay: AnyObject {
    /// Begins the request. Called once, before all other methods.
    func start()
    /// Called with each part of the request's body.
    func partReceived(_ part: ByteBuffer)
    /// Called when the request is complete.
    func endReceived(_ trailers: HTTPHeaders?)
    /// Called when all bytes that have arrived were delivered.
    func readCompleted()
    /// Called when the client starts or stops accepting more of the response.
    func writabilityChanged(_ isWritable: Bool)
    /// Called when the deadline that `setTimer` set has passed.
    func timerFired()
}

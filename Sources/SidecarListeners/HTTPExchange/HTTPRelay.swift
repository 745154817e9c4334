package import NIOCore
package import NIOHTTP1

/// Answers a request whose body is read in parts. All methods are called on the event loop of the client's connection.
package protocol HTTPRelay: AnyObject {
    /// Called once, before everything else.
    func start()
    /// A part of the request's body has come.
    func received(_ part: ByteBuffer)
    /// The request is complete.
    func receivedEnd(_ trailers: HTTPHeaders?)
    /// Everything that has arrived so far was delivered.
    func receivedAllThereIs()
    /// The client has started or stopped accepting more of the answer.
    func writabilityChanged(_ isWritable: Bool)
    /// The deadline that `setAlarm` set has passed.
    func alarm()
}

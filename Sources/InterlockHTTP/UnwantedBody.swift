/// The body of a request that was answered before its end. Only a little of it is read, in small pieces.
package struct UnwantedBody: Sendable {
    package enum ReadLength: Sendable { case usual, small }

    private enum Response { case pending, written }

    /// The maximum number of bytes read from a connection's body. With the last read, the total is at most 64 KiB.
    private static let maximumBytesOfConnection = 60 * 1024
    /// The maximum number of bytes read from a stream's body. Its window allows up to 48 KiB more.
    private static let maximumBytesOfStream = 16 * 1024
    /// The maximum announced length, in bytes, of a stream's body that is read to its end. Some clients (httpx) wait
    /// for the window to open before they read the response, and do not notice that the stream was reset.
    private static let maximumAnnouncedLength = 112 * 1024

    private let carrier: HTTPServerStateMachine.Carrier
    /// The number of bytes that may be dropped.
    private var limit: Int
    private var droppedBytes = 0
    private var response = Response.pending

    init(_ carrier: HTTPServerStateMachine.Carrier) {
        self.carrier = carrier
        limit = carrier == .stream ? Self.maximumBytesOfStream : Self.maximumBytesOfConnection
    }

    /// Whether more bytes were dropped than the limit allows.
    var isOverLimit: Bool { droppedBytes > limit }

    /// Whether the limit is exceeded, and the client can read its response.
    var mayBeStopped: Bool { isOverLimit && response == .written }

    /// Records that the end of a stream's response was passed to the network.
    mutating func responseWritten() { response = .written }

    /// The length of reads from a connection's socket.
    package var readLength: ReadLength { carrier == .connection && droppedBytes > 0 ? .small : .usual }

    /// Counts dropped bytes.
    /// - Returns: whether they exceed the limit for the first time.
    mutating func drop(_ byteCount: Int) -> Bool {
        guard !isOverLimit else { return false }
        droppedBytes += byteCount
        return isOverLimit
    }

    /// Starts over for another request. `contentLength` is the length that a stream's request announces.
    mutating func begin(contentLength: Int?) {
        (droppedBytes, response) = (0, .pending)
        guard carrier == .stream else { return }
        limit = contentLength ?? .max <= Self.maximumAnnouncedLength ? .max : Self.maximumBytesOfStream
    }
}

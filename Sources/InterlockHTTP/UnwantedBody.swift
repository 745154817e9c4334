/// The body of a request that was answered before its end. Only a little of it is read, in small pieces.
package struct UnwantedBody: Sendable {
    package enum ReadLength: Sendable { case usual, small }

    private enum Response { case pending, written }

    /// The maximum number of bytes read from a connection's body. With the last read, the total is at most 64 KiB.
    private static let maximumOfConnection = 60 * 1024
    /// The maximum number of bytes read from a stream's body. Its window allows up to 48 KiB more.
    private static let maximumOfStream = 16 * 1024
    /// A stream's body that announces at most this many bytes is read to its end. Some clients (httpx) wait for the
    /// window before they read the response, and do not notice that the stream was reset.
    private static let maximumAnnounced = 112 * 1024

    private let carrier: HTTPServerStateMachine.Carrier
    private var limit: Int
    private var dropped = 0
    private var response = Response.pending

    init(_ carrier: HTTPServerStateMachine.Carrier) {
        self.carrier = carrier
        limit = carrier == .stream ? Self.maximumOfStream : Self.maximumOfConnection
    }

    /// Whether more was read than the limit allows.
    var isOverLimit: Bool { dropped > limit }

    /// Whether the limit is exceeded, and the client can read its response.
    var mayBeStopped: Bool { isOverLimit && response == .written }

    /// Records that the end of a stream's response was passed to the network.
    mutating func responseWritten() { response = .written }

    /// The length of reads from a connection's socket.
    package var readLength: ReadLength { carrier == .connection && dropped > 0 ? .small : .usual }

    /// - Returns: whether this part exceeds the limit.
    mutating func drop(_ count: Int) -> Bool {
        guard !isOverLimit else { return false }
        dropped += count
        return isOverLimit
    }

    /// Starts over for another request. `contentLength` is the length that a stream's request announces.
    mutating func begin(contentLength: Int?) {
        (dropped, response) = (0, .pending)
        if carrier == .stream { limit = contentLength ?? .max <= Self.maximumAnnounced ? .max : Self.maximumOfStream }
    }
}

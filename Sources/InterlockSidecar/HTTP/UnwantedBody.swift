internal import NIOCore
internal import NIOHTTP1

/// The body of a request that was answered before its end. Only a little of it is read, in small pieces.
struct UnwantedBody {
    /// The most bytes read of a connection's body; the last read brings it to 64 KiB at most.
    private static let most = 60 * 1024
    private static let readLength = 4 * 1024
    /// The same for a stream; its window allows up to 48 KiB more.
    private static let mostOfStream = 16 * 1024
    /// A stream's body that announces at most this many bytes is read to its end. Some clients (httpx) wait for the window before they
    /// read the answer, and do not notice that the stream was reset.
    private static let mostAnnounced = 112 * 1024

    private let isOfStream: Bool
    /// Whether a stream's body has announced that it is small.
    private var isSmall = false
    private var dropped = 0
    private var isReadingLittle = false

    init(ofStream isOfStream: Bool) {
        self.isOfStream = isOfStream
    }

    /// Whether enough was read.
    var isTooMuch: Bool { !isSmall && dropped > (isOfStream ? Self.mostOfStream : Self.most) }

    /// - Returns: whether this part exceeds the limit.
    mutating func drop(_ bytes: Int, from channel: (any Channel)?) -> Bool {
        guard !isTooMuch else { return false }
        dropped += bytes
        if !isReadingLittle, !isOfStream {
            isReadingLittle = true
            Self.setReads(FixedSizeRecvByteBufferAllocator(capacity: Self.readLength), of: channel)
        }
        return isTooMuch
    }

    /// Starts over for another request.
    mutating func begin(_ head: HTTPRequestHead, on channel: (any Channel)?) {
        dropped = 0
        if isOfStream { isSmall = head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? .max <= Self.mostAnnounced }
        guard isReadingLittle else { return }
        isReadingLittle = false
        Self.setReads(AdaptiveRecvByteBufferAllocator(), of: channel)
    }

    private static func setReads(_ allocator: any RecvByteBufferAllocator, of channel: (any Channel)?) {
        try? channel?.syncOptions?.setOption(.recvAllocator, value: allocator)
    }
}

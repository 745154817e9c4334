internal import NIOCore

/// The body of a request that was answered before its end. Little of it is read, and in small pieces.
struct UnwantedBody {
    /// The bytes that are read of a connection's body; with the last read they are at most 64 KiB.
    private static let most = 60 * 1024
    private static let readLength = 4 * 1024
    /// The same for a stream, without what its window still allows. Clients such as httpx wait for a window before they read
    /// the answer, and do not notice that the stream was reset: a body of 100 KB comes to its end.
    private static let mostOfStream = 112 * 1024

    private let isOfStream: Bool
    private var dropped = 0
    private var isReadingLittle = false

    init(ofStream isOfStream: Bool) {
        self.isOfStream = isOfStream
    }

    /// No more of it is read.
    var isTooMuch: Bool { dropped > (isOfStream ? Self.mostOfStream : Self.most) }

    /// - Returns: whether it has become too much with this part.
    mutating func drop(_ bytes: Int, from channel: (any Channel)?) -> Bool {
        guard !isTooMuch else { return false }
        dropped += bytes
        if !isReadingLittle, !isOfStream {
            isReadingLittle = true
            Self.setReads(FixedSizeRecvByteBufferAllocator(capacity: Self.readLength), of: channel)
        }
        return isTooMuch
    }

    /// Another request begins.
    mutating func reset(_ channel: (any Channel)?) {
        dropped = 0
        guard isReadingLittle else { return }
        isReadingLittle = false
        Self.setReads(AdaptiveRecvByteBufferAllocator(), of: channel)
    }

    private static func setReads(_ allocator: any RecvByteBufferAllocator, of channel: (any Channel)?) {
        try? channel?.syncOptions?.setOption(.recvAllocator, value: allocator)
    }
}

internal import NIOCore

/// The parts of a request's body that were sent, buffered until the upstream responds so that they can be resent. Their
/// size is limited for each call and for all calls together. Confined to the coordinator's event loop.
struct ReplayBuffer {
    /// The maximum size of one call's buffer, in bytes.
    static let maximumBytesPerCall = 64 * 1024
    /// The maximum size of the buffers of all calls together, in bytes.
    static let maximumBytes = 16 * 1024 * 1024

    private let upstreams: Upstreams
    /// The sent parts; `nil` once they exceed a limit, after which the body cannot be resent.
    private var parts: [ByteBuffer]? = []
    private var byteCount = 0

    /// Creates an empty buffer.
    /// - Parameter upstreams: the owner of the byte count for all calls.
    init(countedBy upstreams: Upstreams) {
        self.upstreams = upstreams
    }

    /// Adds a part that is being sent. Discards all parts if they exceed a limit.
    mutating func append(_ part: ByteBuffer) {
        let size = part.readableBytes
        guard parts != nil else { return }
        guard byteCount + size <= Self.maximumBytesPerCall, upstreams.replayBufferBytes + size <= Self.maximumBytes
        else {
            release()
            parts = nil
            return
        }
        parts?.append(part)
        byteCount += size
        upstreams.replayBufferBytes += size
    }

    /// Whether every part that was sent can be resent.
    var isComplete: Bool { parts != nil }

    /// Removes and returns all parts.
    mutating func takeAll() -> [ByteBuffer] {
        let takenParts = parts ?? []
        release()
        return takenParts
    }

    /// Discards all parts, because the body will not be resent.
    mutating func release() {
        guard parts?.isEmpty == false else { return }
        upstreams.replayBufferBytes -= byteCount
        byteCount = 0
        parts = []
    }
}

internal import NIOCore

/// The sent part of a request's body, kept until the upstream answers so that it can be resent. Small bodies only:
/// there is a limit for each call and for all calls together. Confined to the coordinator's event loop.
struct KeptBody {
    /// The largest body that is kept, in bytes.
    static let largest = 64 * 1024
    /// The most bytes kept for all calls together.
    static let maximumBytes = 16 * 1024 * 1024

    private let upstreams: Upstreams
    /// `nil` once part of the sent body is no longer kept.
    private var parts: [ByteBuffer]? = []
    private var bytes = 0

    /// - Parameter upstreams: counts the kept bytes of all calls.
    init(countedBy upstreams: Upstreams) {
        self.upstreams = upstreams
    }

    mutating func keep(_ part: ByteBuffer) {
        let size = part.readableBytes
        guard parts != nil else { return }
        guard bytes + size <= Self.largest, upstreams.keptBytes + size <= Self.maximumBytes else {
            release()
            parts = nil
            return
        }
        parts?.append(part)
        bytes += size
        upstreams.keptBytes += size
    }

    /// Whether everything that was sent is kept.
    var isWhole: Bool { parts != nil }

    /// Returns what was kept, and stops keeping it.
    mutating func takeAll() -> [ByteBuffer] {
        let all = parts ?? []
        release()
        return all
    }

    /// Drops the kept parts: the body will not be resent.
    mutating func release() {
        guard parts?.isEmpty == false else { return }
        upstreams.keptBytes -= bytes
        bytes = 0
        parts = []
    }
}

internal import NIOCore

/// The part of a request's body that was sent to an upstream that has not answered yet, so that it can be sent once
/// more. Small bodies only: what is kept is bounded for each call and for all calls together. Confined to the
/// coordinator's event loop.
struct KeptBody {
    /// The largest body that is kept, in bytes.
    static let largest = 64 * 1024
    /// The most that is kept of all calls together, in bytes.
    static let mostBytes = 16 * 1024 * 1024

    private let upstreams: Upstreams
    /// `nil`: something that was sent is not kept any more.
    private var parts: [ByteBuffer]? = []
    private var bytes = 0

    /// - Parameter upstreams: where all that is kept is counted.
    init(countedBy upstreams: Upstreams) {
        self.upstreams = upstreams
    }

    mutating func keep(_ part: ByteBuffer) {
        let size = part.readableBytes
        guard parts != nil else { return }
        guard bytes + size <= Self.largest, upstreams.keptBytes + size <= Self.mostBytes else {
            release()
            parts = nil
            return
        }
        parts?.append(part)
        bytes += size
        upstreams.keptBytes += size
    }

    /// All that was sent, which is no longer kept; `nil`: not all of it is here.
    mutating func takeAll() -> [ByteBuffer]? {
        let all = parts
        release()
        return all
    }

    /// Forgets everything: the body is not sent again.
    mutating func release() {
        upstreams.keptBytes -= bytes
        bytes = 0
        if parts?.isEmpty == false { parts = [] }
    }
}

internal import HummingbirdCore
internal import NIOConcurrencyHelpers
internal import NIOCore

/// A request's body on its way to the upstream.
///
/// The client's connection may be read by one at a time. An upstream can answer before it has read the whole body, and the
/// call is over then while a read of the rest is still under way: `end` waits for that one and allows no other.
final class Upload: Sendable {
    private struct State {
        var isReading = false
        var isClosed = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = NIOLockedValueBox(State())
    private let body: RequestBody
    private let peer: PeerPresence
    /// In bytes; `nil`: it comes in chunks.
    let length: Int64?

    init(_ body: RequestBody, length: Int64?, peer: PeerPresence) {
        self.body = body
        self.length = length
        self.peer = peer
    }

    /// Whether the next piece is awaited from the client, and not a place for it at the upstream.
    var isAwaited: Bool { state.withLockedValue { $0.isReading } }

    /// Waits until the connection is no longer read; nothing of the body is sent any more.
    func end() async {
        await withCheckedContinuation { continuation in
            let isQuiet = state.withLockedValue { state in
                state.isClosed = true
                if state.isReading { state.waiter = continuation }
                return !state.isReading
            }
            if isQuiet { continuation.resume() }
        }
    }

    /// The body's pieces; to be iterated once.
    /// - Parameter exchange: told how far the request is.
    func pieces(for exchange: UpstreamExchange) -> Pieces { Pieces(upload: self, exchange: exchange) }

    struct Pieces: AsyncSequence, Sendable {
        let upload: Upload
        let exchange: UpstreamExchange

        func makeAsyncIterator() -> Iterator {
            // The client asks for the body once the head is on its way.
            exchange.sentHead()
            return Iterator(upload: upload, exchange: exchange, body: upload.body.makeAsyncIterator())
        }

        struct Iterator: AsyncIteratorProtocol {
            let upload: Upload
            let exchange: UpstreamExchange
            var body: RequestBody.AsyncIterator

            @concurrent
            mutating func next() async throws -> ByteBuffer? {
                try upload.startReading()
                defer { upload.stopReading() }
                do {
                    if let piece = try await body.next() { return piece }
                } catch {
                    throw ProxyFailure(cause: .client, reason: "the client's request broke off: \(error)")
                }
                // The stream ends as well when the client leaves in the middle: that is no end of the body.
                if upload.peer.hasLeft { throw ProxyFailure.clientLeft }
                exchange.sentAll()
                return nil
            }
        }
    }

    private func startReading() throws {
        try state.withLockedValue { state in
            guard !state.isClosed else { throw ProxyFailure.clientLeft }
            state.isReading = true
        }
    }

    private func stopReading() {
        let waiter = state.withLockedValue { state in
            state.isReading = false
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}

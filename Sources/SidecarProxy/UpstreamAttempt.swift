internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1

/// One try of a call, with its connection. Forwards the connection's events to the call, together with the try.
/// Confined to the coordinator's event loop.
final class UpstreamAttempt: HTTPClientReceiver {
    private enum Lease {
        case none
        case awaited
        case connection(HTTPClientConnection)
    }

    let number: Int
    let head: HTTPRequestHead
    let upstream: Upstream
    private let call: GuardedCall
    private var lease = Lease.none

    init(_ number: Int, _ head: HTTPRequestHead, to upstream: Upstream, of call: GuardedCall) {
        self.number = number
        self.head = head
        self.upstream = upstream
        self.call = call
    }

    var connection: HTTPClientConnection? { if case .connection(let connection) = lease { connection } else { nil } }

    /// Whether the upstream has yet to accept bytes that were sent to it; `true` without a connection.
    var isBackedUp: Bool { connection.map { !$0.isWritable } ?? true }

    func connect(avoidsUnused: Bool = false) {
        lease = .awaited
        upstream.pool.lease(for: self, avoidsUnused: avoidsUnused)
    }

    func assign(_ connection: HTTPClientConnection) { lease = .connection(connection) }

    /// Gives up the connection, or the wait for one.
    func abandon() {
        let lease = lease
        self.lease = .none
        switch lease {
        case .none: break
        case .awaited: upstream.pool.cancel(self)
        case .connection(let connection): connection.abandon()
        }
    }

    /// Gives the connection to another owner, so that `abandon` no longer affects it.
    func handOver() { lease = .none }

    // MARK: Events of the connection

    func connected(_ connection: HTTPClientConnection) { call.connected(self, connection) }

    func notConnected(_ error: any Error) { call.notConnected(self, error) }

    func receivedInformational(_ head: HTTPResponseHead) { call.upstreamSentInformational(self, head) }

    func received(_ head: HTTPResponseHead) { call.upstreamSentHead(self, head) }

    func received(_ part: ByteBuffer) { call.upstreamSent(self, part) }

    func receivedEnd(_ trailers: HTTPHeaders?) {
        // From now on, the connection may carry other requests.
        lease = .none
        call.upstreamSentEnd(self, trailers)
    }

    func readComplete() { call.upstreamReadComplete(self) }

    func failed(_ error: any Error) {
        lease = .none
        call.upstreamFailed(self, error)
    }

    func writabilityChanged(_ isWritable: Bool) { call.upstreamWritabilityChanged(self, isWritable) }

    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        call.upstreamSwitchedProtocols(self, head, connection)
    }
}

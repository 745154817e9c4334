internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1

/// One attempt of a call, with its connection. Forwards the connection's events to the call, together with the attempt.
/// Confined to the coordinator's event loop.
final class UpstreamAttempt: HTTPClientReceiver {
    /// The state of the connection that the attempt leases from the upstream's pool.
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

    /// Requests a connection from the pool.
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

    func connectionEstablished(_ connection: HTTPClientConnection) { call.connectionEstablished(self, connection) }

    func connectionFailed(_ error: any Error) { call.connectionFailed(self, error) }

    func informationalHeadReceived(_ head: HTTPResponseHead) { call.upstreamSentInformational(self, head) }

    func headReceived(_ head: HTTPResponseHead) { call.upstreamSentHead(self, head) }

    func partReceived(_ part: ByteBuffer) { call.upstreamSent(self, part) }

    func endReceived(_ trailers: HTTPHeaders?) {
        // The connection no longer belongs to this attempt.
        lease = .none
        call.upstreamSentEnd(self, trailers)
    }

    func readCompleted() { call.upstreamReadCompleted(self) }

    func requestFailed(_ error: any Error) {
        lease = .none
        call.upstreamFailed(self, error)
    }

    func writabilityChanged(_ isWritable: Bool) { call.upstreamWritabilityChanged(self, isWritable) }

    func protocolSwitched(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        call.upstreamSwitchedProtocol(self, head, connection)
    }
}

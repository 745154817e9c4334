internal import Logging
internal import NIOCore

/// A dedicated connection that carries one call at a time. A sidecar answers the calls of a connection in order, so a
/// waiting call would block all later ones on the shared connection. Closing the connection withdraws the call.
///
/// Confined to its event loop. Connects on the first call, and does not reconnect after a loss.
final class DedicatedConnection {
    private enum State {
        case idle
        /// The connection is not up yet. Then `send` sends the pending call; if the attempt fails, `fail` fails it.
        case connecting(send: () -> Void, fail: (InterlockError) -> Void)
        case busy
        case closed
    }

    private let connection: SidecarConnection
    private let eventLoop: any EventLoop
    /// The timer that closes the connection after a period without calls.
    private var idleTimer: Scheduled<Void>?
    private var state = State.idle
    /// The number of calls sent so far, which identifies the current call.
    private(set) var callNumber = 0

    /// Called once, when the connection is closed or lost.
    var onClose: (() -> Void)?

    init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.eventLoop = eventLoop
        connection = SidecarConnection(configuration, eventLoop: eventLoop, logger: logger)
        connection.onUp = { [weak self] in self?.connectionEstablished() }
        connection.onDown = { [weak self] in self?.connectionLost(because: $0) }
    }

    var isClosed: Bool {
        if case .closed = state { true } else { false }
    }

    /// Sends a call, connecting first if necessary. No other call may be in flight.
    func send<Call: SidecarCall>(
        _ call: Call, timeout: TimeAmount? = nil, completion: @escaping (Result<Call.Reply, InterlockError>) -> Void
    ) {
        callNumber += 1
        idleTimer?.cancel()
        let send = { [self] in
            state = .busy
            connection.send(call, timeout: timeout) { [self] result in
                if case .busy = state { state = .idle }
                // A late answer must not be mistaken for the answer to the next call.
                if case .failure(let error) = result, error.code == .responseTimedOut { close() }
                completion(result)
            }
        }
        if connection.isUp { return send() }
        state = .connecting(send: send) { completion(.failure($0)) }
        connection.start()
    }

    /// Closes the connection unless another call is sent within `idleTime`.
    func expire(after idleTime: TimeAmount) {
        idleTimer?.cancel()
        idleTimer = eventLoop.assumeIsolated().scheduleTask(in: idleTime) { [weak self] () -> Void in self?.close() }
    }

    /// Withdraws the call with this number if it is still in flight.
    func withdraw(call number: Int) {
        guard number == callNumber else { return }
        switch state {
        case .connecting, .busy: close()
        case .idle, .closed: break
        }
    }

    /// Closes the connection. A call in flight fails.
    @discardableResult
    func close() -> EventLoopFuture<Void> {
        finish(with: InterlockError(.notConnected, "the call was cancelled before the connection was established"))
        return connection.close()
    }

    private func connectionEstablished() {
        if case .connecting(let send, _) = state { send() }
    }

    private func connectionLost(because error: InterlockError) {
        finish(with: error)
        connection.close()
    }

    private func finish(with error: InterlockError) {
        idleTimer?.cancel()
        let previousState = state
        state = .closed
        if case .connecting(_, let fail) = previousState { fail(error) }
        onClose?()
        onClose = nil
    }
}

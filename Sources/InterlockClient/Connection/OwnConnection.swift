internal import Logging
internal import NIOCore

/// A connection for one call at a time, which may wait: answers come in order, so on the shared connection a call that waits
/// would hold up all that follow. Closing it withdraws the call.
///
/// Confined to its event loop. It connects with its first call, and once it is lost it is not made again.
final class OwnConnection {
    private enum State {
        case idle
        /// The call that is sent as soon as the connection is up.
        case connecting(send: () -> Void, fail: (InterlockError) -> Void)
        case busy
        case closed
    }

    private let connection: SidecarConnection
    private let eventLoop: any EventLoop
    /// Closes it when it has had no call for long.
    private var expiry: Scheduled<Void>?
    private var state = State.idle
    /// How many calls it had: tells a call from the one before it.
    private(set) var callNumber = 0

    /// It is closed or lost. Called once.
    var onClose: (() -> Void)?

    init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.eventLoop = eventLoop
        connection = SidecarConnection(configuration, eventLoop: eventLoop, logger: logger)
        connection.onUp = { [weak self] in self?.isUp() }
        connection.onDown = { [weak self] in self?.isLost($0) }
    }

    var isClosed: Bool {
        if case .closed = state { true } else { false }
    }

    /// Sends a call, connecting first if need be. There is no other in flight.
    func send<Call: SidecarCall>(
        _ call: Call, timeout: TimeAmount? = nil, completion: @escaping (Result<Call.Reply, InterlockError>) -> Void
    ) {
        callNumber += 1
        expiry?.cancel()
        let send = { [self] in
            state = .busy
            connection.send(call, timeout: timeout) { [self] result in
                if case .busy = state { state = .idle }
                // Its answer may still come, and nobody is to take it for the next call's.
                if case .failure(let error) = result, error.code == .answerTimedOut { close() }
                completion(result)
            }
        }
        if connection.isUp { return send() }
        state = .connecting(send: send) { completion(.failure($0)) }
        connection.start()
    }

    /// Closes it unless it has another call in time.
    func expire(after time: TimeAmount) {
        expiry?.cancel()
        expiry = eventLoop.assumeIsolated().scheduleTask(in: time) { [weak self] () -> Void in self?.close() }
    }

    /// Withdraws that call if it is still the one in flight.
    func withdraw(call number: Int) {
        guard number == callNumber else { return }
        switch state {
        case .connecting, .busy: close()
        case .idle, .closed: break
        }
    }

    /// Ends the connection; a call in flight fails.
    @discardableResult
    func close() -> EventLoopFuture<Void> {
        end(InterlockError(.notConnected, "the call was withdrawn before there was a connection"))
        return connection.close()
    }

    private func isUp() {
        if case .connecting(let send, _) = state { send() }
    }

    private func isLost(_ error: InterlockError) {
        end(error)
        connection.close()
    }

    private func end(_ error: InterlockError) {
        expiry?.cancel()
        let previous = state
        state = .closed
        if case .connecting(_, let fail) = previous { fail(error) }
        onClose?()
        onClose = nil
    }
}

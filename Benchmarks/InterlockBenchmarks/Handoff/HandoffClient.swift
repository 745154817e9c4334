import InterlockClient
import NIOCore

/// A client that acquires and releases the lock repeatedly until the run ends.
final class HandoffClient {
    private enum State {
        case idle
        case acquiring(requestedAt: NIODeadline)
        case releasing
        case done
    }

    private let run: HandoffRun
    private let connection: SidecarConnection
    private var state = State.idle

    init(run: HandoffRun, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop) {
        self.run = run
        connection = sidecar.connection(on: eventLoop)
        connection.onUp = { [unowned self] in self.run.clientConnected() }
        connection.onDown = { [unowned self] in connectionLost($0) }
    }

    /// The start of the current wait for the lock; `nil` if the client does not wait.
    var waitingSince: NIODeadline? {
        guard case .acquiring(let requestedAt) = state else { return nil }
        return requestedAt
    }

    func connect() {
        connection.start()
    }

    func acquire() {
        let requestedAt = NIODeadline.now()
        state = .acquiring(requestedAt: requestedAt)
        connection.send(run.acquireCall) { [self] result in
            switch result {
            case .success(let lease?): granted(lease, requestedAt: requestedAt)
            case .success(nil): refused("the lock was still held at the end of the wait")
            case .failure(let error): failed(error)
            }
        }
    }

    private func granted(_ lease: Lease, requestedAt: NIODeadline) {
        run.record.granted(to: ObjectIdentifier(self), fence: lease.fence, requestedAt: requestedAt, now: .now())
        state = .releasing
        run.record.willRelease(ObjectIdentifier(self), now: .now())
        connection.send(LockCalls.Release(name: run.lock, token: lease.token)) { [self] result in
            switch result {
            case .success(true): continueOrEnd()
            case .success(false): refused("the lease was lost before it was released")
            case .failure(let error): failed(error)
            }
        }
    }

    private func failed(_ error: InterlockError) {
        // `connectionLost` handles a lost connection.
        if error.code != .responseLost { refused("\(error)") }
    }

    private func refused(_ reason: String) {
        run.record.failed(reason)
        run.retryLater { [self] in continueOrEnd() }
    }

    private func connectionLost(_ error: InterlockError) {
        if case .done = state { return }
        run.record.failed("\(error)")
        end()
    }

    private func continueOrEnd() {
        // The connection may have been lost in the meantime.
        if case .done = state { return }
        guard run.isEnding else { return acquire() }
        end()
    }

    private func end() {
        state = .done
        connection.close()
        run.clientEnded()
    }
}

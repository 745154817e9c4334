import InterlockClient
import NIOCore

/// A client that acquires and releases the lock again and again until the run ends.
final class HandoverClient {
    private enum State {
        case idle
        case acquiring(requestedAt: NIODeadline)
        case releasing
        case done
    }

    private let run: HandoverRun
    private let connection: SidecarConnection
    private var state = State.idle

    init(run: HandoverRun, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop) {
        self.run = run
        connection = sidecar.connection(on: eventLoop)
        connection.onUp = { [unowned self] in self.run.clientConnected() }
        connection.onDown = { [unowned self] in connectionLost($0) }
    }

    /// The start of the client's current wait for the lock; `nil` if it is not waiting.
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
            case .success(let lease?): leaseGranted(lease, requestedAt: requestedAt)
            case .success(nil): retry(after: "the lock was still held at the end of the wait")
            case .failure(let error): callFailed(error)
            }
        }
    }

    private func leaseGranted(_ lease: Lease, requestedAt: NIODeadline) {
        run.record.addGrant(to: ObjectIdentifier(self), fence: lease.fence, requestedAt: requestedAt, now: .now())
        state = .releasing
        run.record.addRelease(ObjectIdentifier(self), now: .now())
        connection.send(LockCalls.Release(name: run.lock, token: lease.token)) { [self] result in
            switch result {
            case .success(true): continueOrEnd()
            case .success(false): retry(after: "the lease was lost before it was released")
            case .failure(let error): callFailed(error)
            }
        }
    }

    private func callFailed(_ error: InterlockError) {
        // `connectionLost` handles a lost connection.
        if error.code != .responseLost { retry(after: "\(error)") }
    }

    private func retry(after reason: String) {
        run.record.addError(reason)
        run.retryLater { [self] in continueOrEnd() }
    }

    private func connectionLost(_ error: InterlockError) {
        if case .done = state { return }
        run.record.addError("\(error)")
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

import InterlockClient
import NIOCore

/// A client that acquires and releases the lock repeatedly until the run ends.
final class HandoverClient {
    private enum State {
        case idle
        case acquiring(askedAt: NIODeadline)
        case releasing
        case done
    }

    private let run: HandoverRun
    private let connection: SidecarConnection
    private var state = State.idle

    init(run: HandoverRun, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop) {
        self.run = run
        connection = sidecar.connection(on: eventLoop)
        connection.onUp = { [unowned self] in self.run.clientIsUp() }
        connection.onDown = { [unowned self] in isLost($0) }
    }

    /// The start of the current wait for the lock; `nil` if the client does not wait.
    var waitingSince: NIODeadline? {
        guard case .acquiring(let askedAt) = state else { return nil }
        return askedAt
    }

    func connect() {
        connection.start()
    }

    func acquire() {
        let askedAt = NIODeadline.now()
        state = .acquiring(askedAt: askedAt)
        connection.send(run.acquireCall) { [self] result in
            switch result {
            case .success(let lease?): granted(lease, askedAt: askedAt)
            case .success(nil): refused("the lock was still held at the end of the wait")
            case .failure(let error): failed(error)
            }
        }
    }

    private func granted(_ lease: Lease, askedAt: NIODeadline) {
        run.record.granted(to: ObjectIdentifier(self), fence: lease.fence, askedAt: askedAt, now: .now())
        state = .releasing
        run.record.releases(ObjectIdentifier(self), now: .now())
        connection.send(LockCalls.Release(name: run.lock, token: lease.token)) { [self] result in
            switch result {
            case .success(true): goOn()
            case .success(false): refused("the lease was lost before it was released")
            case .failure(let error): failed(error)
            }
        }
    }

    private func failed(_ error: InterlockError) {
        // `isLost` handles a lost connection.
        if error.code != .answerLost { refused("\(error)") }
    }

    private func refused(_ reason: String) {
        run.record.failed(reason)
        run.later { [self] in goOn() }
    }

    private func isLost(_ error: InterlockError) {
        if case .done = state { return }
        run.record.failed("\(error)")
        end()
    }

    private func goOn() {
        // The connection may have been lost in the meantime.
        if case .done = state { return }
        guard run.isEnding else { return acquire() }
        end()
    }

    private func end() {
        state = .done
        connection.close()
        run.clientIsDone()
    }
}

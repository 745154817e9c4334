import InterlockClient
import InterlockCore
import NIOCore

/// A connection that holds its portion of the leases, which last as long as it is open.
final class LinkedClient {
    /// The maximum number of calls in flight, below the number at which a sidecar pauses reading.
    private static let window = 500

    private let locks: [String]
    private let run: LinkedRun
    private let connection: SidecarConnection
    private var sent = 0
    private var answered = 0
    /// The number of lost leases found so far.
    private var lost = 0
    /// The tokens of the leases, in the order of `locks`.
    private var tokens: [String] = []

    init(locks: [String], run: LinkedRun, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop) {
        self.locks = locks
        self.run = run
        connection = sidecar.connection(on: eventLoop)
        connection.onUp = { [unowned self] in acquireMore() }
        connection.onDown = { [unowned self] in self.run.failed($0) }
    }

    func connect() {
        connection.start()
    }

    func close() {
        connection.close()
    }

    func checkLeases() {
        (sent, answered) = (0, 0)
        checkMore()
    }

    private func acquireMore() {
        while sent < locks.count, sent - answered < Self.window {
            let call = LockCalls.Acquire(name: locks[sent], options: LockOptions(ttl: run.plan.ttl), isLinked: true)
            sent += 1
            connection.send(call) { [self] result in
                answered += 1
                switch result {
                case .success(let lease?): tokens.append(lease.token)
                case .success(nil): return run.failed(BenchmarkFailure("\(call.name) is held by another client"))
                case .failure(let error): return run.failed(error)
                }
                if answered == locks.count { run.clientAcquired() } else { acquireMore() }
            }
        }
    }

    private func checkMore() {
        while sent < locks.count, sent - answered < Self.window {
            let call = LockCalls.Renew(name: locks[sent], token: tokens[sent], ttl: run.plan.ttl)
            sent += 1
            connection.send(call) { [self] result in
                answered += 1
                switch result {
                case .success(let validity): if validity == nil { lost += 1 }
                case .failure(let error): return run.failed(error)
                }
                if answered == locks.count { run.clientChecked(lost: lost) } else { checkMore() }
            }
        }
    }
}

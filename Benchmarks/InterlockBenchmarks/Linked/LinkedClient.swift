import InterlockClient
import InterlockCore
import NIOCore

/// A client that holds its portion of the leases. The leases last as long as the client's connection is open.
final class LinkedClient {
    /// The maximum number of calls in flight, which is below the number at which a sidecar stops reading.
    private static let maximumInFlight = 500

    private let locks: [String]
    private let run: LinkedRun
    private let connection: SidecarConnection
    private var sentCount = 0
    private var answeredCount = 0
    /// The number of lost leases found so far.
    private var lostCount = 0
    /// The tokens of the leases, in the order of `locks`.
    private var tokens: [String] = []

    init(locks: [String], run: LinkedRun, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop) {
        self.locks = locks
        self.run = run
        connection = sidecar.connection(on: eventLoop)
        connection.onUp = { [unowned self] in acquireMore() }
        connection.onDown = { [unowned self] in self.run.fail($0) }
    }

    func connect() {
        connection.start()
    }

    func close() {
        connection.close()
    }

    /// Renews every lease to find out whether it is still held.
    func checkLeases() {
        (sentCount, answeredCount) = (0, 0)
        checkMore()
    }

    private func acquireMore() {
        while sentCount < locks.count, sentCount - answeredCount < Self.maximumInFlight {
            let options = LockOptions(ttl: run.plan.ttl)
            let call = LockCalls.Acquire(name: locks[sentCount], options: options, isLinked: true)
            sentCount += 1
            connection.send(call) { [self] result in
                answeredCount += 1
                switch result {
                case .success(let lease?): tokens.append(lease.token)
                case .success(nil): return run.fail(BenchmarkFailure("\(call.name) is held by another client"))
                case .failure(let error): return run.fail(error)
                }
                if answeredCount == locks.count { run.clientAcquired() } else { acquireMore() }
            }
        }
    }

    private func checkMore() {
        while sentCount < locks.count, sentCount - answeredCount < Self.maximumInFlight {
            let call = LockCalls.Renew(name: locks[sentCount], token: tokens[sentCount], ttl: run.plan.ttl)
            sentCount += 1
            connection.send(call) { [self] result in
                answeredCount += 1
                switch result {
                case .success(let validity): if validity == nil { lostCount += 1 }
                case .failure(let error): return run.fail(error)
                }
                if answeredCount == locks.count { run.clientChecked(lost: lostCount) } else { checkMore() }
            }
        }
    }
}

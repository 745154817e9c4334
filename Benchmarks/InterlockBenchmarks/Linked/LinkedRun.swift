import NIOCore

/// All connections of one run, on one event loop: they take their leases, rest, and look for them.
final class LinkedRun {
    struct Plan {
        var leases: Int
        /// Milliseconds.
        var ttl: Int
        var hold: TimeAmount
    }

    private static let mostConnections = 10

    let plan: Plan
    private let eventLoop: any EventLoop
    private let promise: EventLoopPromise<LinkedFigures>
    private var clients: [LinkedClient] = []
    private var clientsReady = 0
    private var lost = 0

    /// Called on the event loop, where everything of it happens.
    static func start(
        _ plan: Plan, sidecar: SidecarEndpoint, eventLoop: any EventLoop
    ) -> EventLoopFuture<LinkedFigures> {
        let run = LinkedRun(plan: plan, eventLoop: eventLoop)
        let connections = min(mostConnections, plan.leases)
        run.clients = (0..<connections).map { index in
            let locks = stride(from: index, to: plan.leases, by: connections).map { "linked-\($0)" }
            return LinkedClient(locks: locks, run: run)
        }
        for client in run.clients { client.connect(to: sidecar, on: eventLoop) }
        // The clients own the run as it owns them: they part when it is over.
        run.promise.futureResult.assumeIsolated().whenComplete { _ in run.clients = [] }
        return run.promise.futureResult
    }

    private init(plan: Plan, eventLoop: any EventLoop) {
        self.plan = plan
        self.eventLoop = eventLoop
        promise = eventLoop.makePromise()
    }

    func clientHoldsAll() {
        clientsReady += 1
        guard clientsReady == clients.count else { return }
        do {
            try LinkedProgress(held: plan.leases).show()
        } catch {
            return failed(error)
        }
        clientsReady = 0
        eventLoop.assumeIsolated().scheduleTask(in: plan.hold) { [self] in
            for client in clients { client.lookForLeases() }
        }
    }

    func clientHasLooked(lost: Int) {
        self.lost += lost
        clientsReady += 1
        guard clientsReady == clients.count else { return }
        promise.succeed(LinkedFigures(leases: plan.leases, lost: self.lost))
    }

    /// The first failure ends the run.
    func failed(_ error: any Error) {
        promise.fail(error)
    }
}

import ArgumentParser
import NIOCore
import NIOPosix

/// A run of clients that acquire many leases, hold them, and then check them, on one event loop.
final class LinkedRun {
    struct Plan {
        var leases: Int
        var ttl: Duration
        var hold: TimeAmount
    }

    private static let maximumConnections = 10

    let plan: Plan
    private let eventLoop: any EventLoop
    private let promise: EventLoopPromise<LinkedFigures>
    private var clients: [LinkedClient] = []
    private var finishedClientCount = 0
    private var lostCount = 0

    /// Starts a run. Must be called on the event loop, to which the run is confined.
    static func start(
        _ plan: Plan, sidecar: BenchmarkedSidecar, eventLoop: any EventLoop
    ) -> EventLoopFuture<LinkedFigures> {
        let run = LinkedRun(plan: plan, eventLoop: eventLoop)
        let clientCount = min(maximumConnections, plan.leases)
        run.clients = (0..<clientCount).map { index in
            let locks = stride(from: index, to: plan.leases, by: clientCount).map { "linked-\($0)" }
            return LinkedClient(locks: locks, run: run, sidecar: sidecar, eventLoop: eventLoop)
        }
        for client in run.clients { client.connect() }
        // The clients and the run retain each other until the run has ended.
        run.promise.futureResult.assumeIsolated().whenComplete { _ in
            for client in run.clients { client.close() }
            run.clients = []
        }
        return run.promise.futureResult
    }

    private init(plan: Plan, eventLoop: any EventLoop) {
        self.plan = plan
        self.eventLoop = eventLoop
        promise = eventLoop.makePromise()
    }

    /// Reports that all leases are held, once every client has acquired its own.
    func clientAcquired() {
        finishedClientCount += 1
        guard finishedClientCount == clients.count else { return }
        do {
            try LinkedProgress(held: plan.leases).printLine()
        } catch {
            return fail(error)
        }
        finishedClientCount = 0
        eventLoop.assumeIsolated().scheduleTask(in: plan.hold) { [self] in
            for client in clients { client.checkLeases() }
        }
    }

    /// Ends the run once every client has checked its leases.
    func clientChecked(lost: Int) {
        lostCount += lost
        finishedClientCount += 1
        guard finishedClientCount == clients.count else { return }
        promise.succeed(LinkedFigures(leases: plan.leases, lost: lostCount))
    }

    /// Ends the run with an error. Only the first error counts.
    func fail(_ error: any Error) {
        promise.fail(error)
    }
}

/// Checks that a sidecar keeps many linked leases alive.
struct LinkedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "linked",
        abstract: "Check that a sidecar keeps many linked leases alive.",
        discussion: """
            Prints {"held":N} as soon as all leases are held, waits for the given time, and then checks each of them.
            """)

    @Option(help: ArgumentHelp("The RESP address of the sidecar.", valueName: "host:port"))
    var sidecar: BenchmarkedSidecar

    @Option(help: "The number of leases, spread over ten connections.")
    var leases = 10_000

    @Option(help: "The TTL of the leases in milliseconds.")
    var ttl = 10_000

    @Option(help: "How long to hold the leases.")
    var seconds = 60.0

    func run() async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let plan = LinkedRun.Plan(leases: leases, ttl: .milliseconds(ttl), hold: TimeAmount(seconds: seconds))
        let figures = try await eventLoop.flatSubmit { [sidecar] in
            LinkedRun.start(plan, sidecar: sidecar, eventLoop: eventLoop)
        }.get()
        try figures.printLine()
    }
}

/// The final figures of `linked`.
struct LinkedFigures: Figures {
    var leases: Int
    /// The number of leases that were no longer held.
    var lost: Int
}

/// The intermediate report of `linked`: all leases are held.
struct LinkedProgress: Figures {
    var held: Int
}

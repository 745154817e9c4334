import ArgumentParser
import InterlockClient
import InterlockCore
import NIOCore
import NIOPosix

/// A run of clients that hand one lock over to each other, on one event loop. Connects the clients, measures them, and
/// waits until each has finished its last cycle, so that the sidecars' work can be divided by whole cycles.
final class HandoverRun {
    /// The time before the measured time, during which caches fill and scripts are loaded.
    private static let warmUp = TimeAmount.seconds(1)
    /// The time limit for the last cycles. Clients that are still waiting then count as errors.
    private static let lastCyclesTimeout = TimeAmount.seconds(15)
    /// The pause before a client retries after an error.
    private static let pauseAfterError = TimeAmount.milliseconds(10)
    /// The TTL of the leases, which is so long that no lease expires here.
    private static let ttl = Duration.seconds(10)
    private static let wait = Duration.seconds(60)

    let lock: String
    let acquireCall: LockCalls.Acquire
    var record: HandoverRecord
    private(set) var isEnding = false

    private let eventLoop: any EventLoop
    private let length: TimeAmount
    private let promise: EventLoopPromise<HandoverFigures>
    private var clients: [HandoverClient] = []
    private var connectedClientCount = 0
    private var endedClientCount = 0
    private var isFinished = false

    /// Starts a run. Must be called on the event loop, to which the run is confined.
    static func start(
        endpoints: [BenchmarkedSidecar], lock: String, length: TimeAmount, eventLoop: any EventLoop
    ) -> EventLoopFuture<HandoverFigures> {
        let run = HandoverRun(lock: lock, length: length, eventLoop: eventLoop)
        run.clients = endpoints.map { HandoverClient(run: run, sidecar: $0, eventLoop: eventLoop) }
        for client in run.clients { client.connect() }
        // The clients and the run retain each other until the run has ended.
        run.promise.futureResult.assumeIsolated().whenComplete { _ in run.clients = [] }
        return run.promise.futureResult
    }

    private init(lock: String, length: TimeAmount, eventLoop: any EventLoop) {
        self.lock = lock
        self.length = length
        self.eventLoop = eventLoop
        acquireCall = LockCalls.Acquire(name: lock, options: LockOptions(ttl: Self.ttl, wait: Self.wait))
        let begin = NIODeadline.now()
        record = HandoverRecord(begin: begin, end: begin)
        promise = eventLoop.makePromise()
    }

    /// Begins the run once all clients are connected.
    func clientConnected() {
        connectedClientCount += 1
        guard connectedClientCount == clients.count else { return }
        let begin = NIODeadline.now() + Self.warmUp
        record = HandoverRecord(begin: begin, end: begin + length)
        at(begin + length) { [self] in end() }
        for client in clients { client.acquire() }
    }

    /// Ends the run once all clients have ended.
    func clientEnded() {
        endedClientCount += 1
        // If a client cannot even connect, the others never start.
        if endedClientCount == clients.count || connectedClientCount < clients.count { finish() }
    }

    /// Calls `body` after a pause.
    func retryLater(_ body: @escaping () -> Void) {
        at(.now() + Self.pauseAfterError, body)
    }

    /// Ends the measured time, and waits for the last cycles.
    private func end() {
        isEnding = true
        let now = NIODeadline.now()
        for client in clients {
            if let since = client.waitingSince { record.addWait(since: since, now: now) }
        }
        at(now + Self.lastCyclesTimeout) { [self] in
            for client in clients where client.waitingSince != nil {
                record.addError("a client was still waiting at the end")
            }
            finish()
        }
    }

    private func finish() {
        guard !isFinished else { return }
        isFinished = true
        promise.completeWith(Result { try record.figures() })
    }

    private func at(_ deadline: NIODeadline, _ body: @escaping () -> Void) {
        eventLoop.assumeIsolated().scheduleTask(deadline: deadline, body)
    }
}

/// Measures one lock without hold time, with many waiters at each sidecar.
struct HandoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handover",
        abstract: "Measure how fast a lock is handed over between clients of one process.")

    @Option(
        name: .customLong("sidecar"),
        help: ArgumentHelp("The RESP address of a sidecar; may be repeated.", valueName: "host:port"))
    var sidecars: [BenchmarkedSidecar]

    @Option(help: "The number of clients of each sidecar.")
    var waiters = 16

    @Option(help: "How long to measure, after a warm-up of one second.")
    var seconds = 5.0

    @Option(help: "The lock's name.")
    var lock = "handover"

    func run() async throws {
        let endpoints = sidecars.flatMap { Array(repeating: $0, count: waiters) }
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let length = TimeAmount(seconds: seconds)
        let figures = try await eventLoop.flatSubmit { [lock] in
            HandoverRun.start(endpoints: endpoints, lock: lock, length: length, eventLoop: eventLoop)
        }.get()
        try figures.printLine()
    }
}

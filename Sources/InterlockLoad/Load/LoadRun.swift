internal import InterlockCore
internal import InterlockJudge
internal import Glibc
internal import InterlockClient
internal import Interlock
package import NIOCore

/// A run of load against sidecars. The run, its connections, its measures and the checkers of its history share one
/// event loop, so an operation never switches threads.
package actor LoadRun {
    private nonisolated let eventLoop: any EventLoop
    private let engine: LoadEngine
    private var connectContinuation: CheckedContinuation<Void, any Error>?
    /// The number of clients that have begun to connect.
    private var startedClientCount = 0
    /// The numbers of the clients that have connected.
    private var connectedClients = Set<Int>()
    private var watchContinuation: CheckedContinuation<Void, Never>?
    private var tickTimer: Scheduled<Void>?
    private var drainTimer: Scheduled<Void>?
    private var drainContinuation: CheckedContinuation<Void, Never>?
    private var isStopped = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// The maximum number of concurrent connection attempts.
    private static let maximumConcurrentAttempts = 64
    /// The number of file descriptors for purposes other than clients, such as the watches of the sidecars.
    private static let reservedDescriptors = 128
    /// The time limit for the first connection.
    private static let firstConnectionTimeout = Duration.seconds(3)
    /// The maximum time to wait for the watches of the sidecars.
    private static let watchTimeout = TimeAmount.seconds(2)

    /// Creates a run that has not begun.
    /// - Parameters:
    ///   - plan: the plan of the run.
    ///   - eventLoop: the event loop of the run, preferably a dedicated one.
    ///   - recorder: a recorder on the same event loop.
    /// - Throws: `LoadError` if the plan cannot run.
    package init(plan: LoadPlan, eventLoop: any EventLoop, recorder: HistoryRecorder) throws {
        self.eventLoop = eventLoop
        engine = try LoadEngine(plan: plan, eventLoop: eventLoop, recorder: recorder)
    }

    /// Connects, drives the sidecars for the duration of the plan, and waits for active operations to end. A run can be
    /// started only once. Cancellation ends the run early, and the outcome then covers the run up to that time.
    /// - Parameters:
    ///   - progress: a closure that receives the state of the run once a second, on the event loop.
    ///   - onBegin: a closure that is called on the event loop when all connections are up and the run begins.
    /// - Throws: `LoadError` if the sidecars cannot be reached or the process cannot open enough connections.
    package func run(
        progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }, onBegin: @Sendable () -> Void = {}
    ) async throws -> LoadOutcome {
        precondition(engine.phase == .connecting && startedClientCount == 0, "a load run can only be started once")
        return try await withTaskCancellationHandler {
            try await withCleanup {
                try FileDescriptors.provide(for: engine.plan.clients + Self.reservedDescriptors)
                try engine.openProxy()
                try await connect()
                return await drive(onBegin, progress)
            } finally: {
                await close()
            }
        } onCancel: {
            eventLoop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    /// Ends the run early. No further job begins.
    package func stop() {
        isStopped = true
        finishConnecting(with: .failure(CancellationError()))
        drain()
    }

    /// Makes up to `count` busy clients vanish: closes their connections as if their processes had died.
    /// - Returns: the number of clients that vanished.
    package func vanish(count: Int) -> Int {
        var vanishedCount = 0
        // The search starts at a random client, so that other clients vanish each time.
        let clients = engine.clients
        guard !clients.isEmpty else { return 0 }
        let firstIndex = Int(engine.random.unit() * Double(clients.count))
        for offset in clients.indices where vanishedCount < count {
            if clients[(firstIndex + offset) % clients.count].vanish() { vanishedCount += 1 }
        }
        return vanishedCount
    }

    /// Measures this process under `name` from now on, such as `redis` after a restart. Sidecars are measured
    /// automatically.
    package func follow(_ name: String, processID: Int32) {
        engine.follow(name, processID: processID)
    }

    // MARK: Connecting

    private func connect() async throws {
        let plan = engine.plan
        for watch in engine.watches { watch.start() }
        guard plan.usesRESP else { return }
        let timeLimit = Duration.seconds(10) + .milliseconds(10 * plan.clients)
        let firstConnectionTimer = after(TimeAmount(Self.firstConnectionTimeout)) { [self] in
            if connectedClients.isEmpty { connectTimedOut(after: Self.firstConnectionTimeout) }
        }
        let connectTimer = after(TimeAmount(timeLimit)) { [self] in connectTimedOut(after: timeLimit) }
        engine.onConnection = { [self] client, error in
            if let error { clientFailed(client, error) } else { clientConnected(client) }
        }
        defer {
            firstConnectionTimer.cancel()
            connectTimer.cancel()
            engine.onConnection = nil
        }
        try await withCheckedThrowingContinuation { continuation in
            connectContinuation = continuation
            while startedClientCount < min(Self.maximumConcurrentAttempts, plan.clients) { connectNext() }
        }
    }

    private func connectNext() {
        guard startedClientCount < engine.clients.count else { return }
        startedClientCount += 1
        engine.clients[startedClientCount - 1].connect()
    }

    private func clientConnected(_ client: LoadClient) {
        guard connectedClients.insert(client.number).inserted else { return }
        connectNext()
        if connectedClients.count == engine.clients.count { finishConnecting(with: .success(())) }
    }

    private func clientFailed(_ client: LoadClient, _ error: InterlockError) {
        // Only an answer of the sidecar is final, because the next attempt would get the same one.
        guard error.isFromSidecar else { return }
        finishConnecting(with: .failure(LoadError("sidecar \(client.sidecar) rejects clients: \(error)")))
    }

    private func connectTimedOut(after timeLimit: Duration) {
        let missingClient = engine.clients.first { !connectedClients.contains($0.number) }
        let sidecar = missingClient?.sidecar ?? 0
        let reason = missingClient?.lastFailure?.message ?? "no answer"
        finishConnecting(
            with: .failure(
                LoadError(
                    "only \(connectedClients.count) of \(engine.clients.count) connections were established in \(timeLimit); sidecar \(sidecar): \(reason)"
                )))
    }

    /// Resumes `connect`, unless it has already been resumed.
    private func finishConnecting(with result: Result<Void, any Error>) {
        connectContinuation?.resume(with: result)
        connectContinuation = nil
    }

    private func close() async {
        let closing = engine.close()
        // Closing cannot fail: only this side completes the futures.
        try? await closing.get()
        engine.forgetClients()
    }

    // MARK: Driving

    private func drive(
        _ onBegin: @Sendable () -> Void, _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async -> LoadOutcome {
        engine.follow("harness", processID: getpid())
        if let redis = engine.plan.redisProcessID { engine.follow("redis", processID: redis) }
        await waitUntilWatched()
        await withCheckedContinuation { continuation in engine.sampleProcesses { continuation.resume() } }
        var wallTime = timespec()
        clock_gettime(CLOCK_REALTIME, &wallTime)
        let startedAtMilliseconds = Int64(wallTime.tv_sec) * 1000 + Int64(wallTime.tv_nsec) / 1_000_000
        engine.begin()
        onBegin()
        scheduleTick(1, since: .now(), progress)
        await waitUntilDrained()
        let end = engine.recorder.now()
        tickTimer?.cancel()
        await withCheckedContinuation { continuation in engine.sampleProcesses { continuation.resume() } }
        return engine.outcome(startedAtMilliseconds: startedAtMilliseconds, end: end)
    }

    private func after(_ pause: TimeAmount, _ body: @escaping () -> Void) -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    private func scheduleTick(_ number: Int64, since start: NIODeadline, _ progress: @escaping @Sendable (LoadProgress) -> Void) {
        tickTimer = eventLoop.assumeIsolated().scheduleTask(deadline: start + .seconds(number)) { [self] in
            engine.sampleProcesses {}
            progress(engine.progress)
            scheduleTick(number + 1, since: start, progress)
        }
    }

    /// Waits until every sidecar is watched or `watchTimeout` has passed. A sidecar that cannot be watched still
    /// receives load.
    private func waitUntilWatched() async {
        let watchTimer = after(Self.watchTimeout) { [self] in endWatchWait() }
        await withCheckedContinuation { continuation in
            watchContinuation = continuation
            for watch in engine.watches { watch.onWatching = { [self] in checkWatches() } }
            checkWatches()
        }
        watchTimer.cancel()
    }

    private func checkWatches() {
        if engine.watches.allSatisfy(\.isWatching) { endWatchWait() }
    }

    private func endWatchWait() {
        for watch in engine.watches { watch.onWatching = nil }
        watchContinuation?.resume()
        watchContinuation = nil
    }

    private func waitUntilDrained() async {
        let durationTimer = after(TimeAmount(engine.plan.duration)) { [self] in drain() }
        await withCheckedContinuation { continuation in
            drainContinuation = continuation
            if isStopped { drain() }
        }
        durationTimer.cancel()
    }

    private func drain() {
        guard drainContinuation != nil, engine.phase == .running else { return }
        drainTimer = after(TimeAmount(engine.maximumDrainTime)) { [self] in endDrain() }
        engine.drain { [self] in endDrain() }
    }

    private func endDrain() {
        drainTimer?.cancel()
        drainContinuation?.resume()
        drainContinuation = nil
    }
}

/// The file descriptors that a run needs.
enum FileDescriptors {
    /// Raises the limit of this process if necessary.
    /// - Throws: `LoadError` if fewer than `count` descriptors are allowed.
    static func provide(for count: Int) throws(LoadError) {
        guard let limit = OpenFileLimit.raiseToHardLimit(), limit < count else { return }
        throw LoadError(
            "these connections need \(count) open files, but the limit is \(limit); raise it (ulimit -Hn), or lower --clients"
        )
    }
}

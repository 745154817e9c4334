internal import InterlockCore
internal import InterlockJudge
internal import Glibc
internal import InterlockClient
internal import Interlock
package import NIOCore

/// A run of load against sidecars. Lives on one event loop with its connections, its measures and the checkers of its
/// history, so an operation never switches threads.
package actor LoadRun {
    private nonisolated let eventLoop: any EventLoop
    private let engine: LoadEngine
    private var connectContinuation: CheckedContinuation<Void, any Error>?
    /// The number of clients that began to connect.
    private var connecting = 0
    private var connectedClients = Set<Int>()
    private var watchContinuation: CheckedContinuation<Void, Never>?
    private var tickTimer: Scheduled<Void>?
    private var drainTimeout: Scheduled<Void>?
    private var drainContinuation: CheckedContinuation<Void, Never>?
    private var isStopped = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// The maximum number of concurrent connection attempts.
    private static let maximumConcurrentAttempts = 64
    /// The file descriptors beyond those of the clients: for the watches of the sidecars and the process itself.
    private static let reservedDescriptors = 128
    /// The time allowed for the first connection.
    private static let firstConnectionTimeout = Duration.seconds(3)
    /// The time to wait for the subscriptions at the sidecars.
    private static let watchTimeout = TimeAmount.seconds(2)

    /// - Parameters:
    ///   - eventLoop: the event loop of the run, preferably a dedicated one.
    ///   - recorder: a recorder on the same event loop.
    /// - Throws: `LoadError` if the plan cannot be executed.
    package init(plan: LoadPlan, eventLoop: any EventLoop, recorder: HistoryRecorder) throws {
        self.eventLoop = eventLoop
        engine = try LoadEngine(plan: plan, eventLoop: eventLoop, recorder: recorder)
    }

    /// Connects, drives the sidecars for the duration of the plan, and waits for active operations to end. Call it
    /// once. Cancellation ends the run early; the outcome then covers the run up to that point.
    /// - Parameters:
    ///   - progress: called once a second on the event loop.
    ///   - begun: called on the event loop once all connections are up, when the run begins.
    /// - Throws: `LoadError` if the sidecars cannot be reached or the process cannot open enough connections.
    package func run(
        progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }, begun: @Sendable () -> Void = {}
    ) async throws -> LoadOutcome {
        precondition(engine.phase == .connecting && connecting == 0, "a load run can only be started once")
        return try await withTaskCancellationHandler {
            try await attempt {
                try FileDescriptors.provide(for: engine.plan.clients + Self.reservedDescriptors)
                try engine.openProxy()
                try await connect()
                return await drive(begun, progress)
            } finally: {
                await close()
            }
        } onCancel: {
            eventLoop.execute { self.assumeIsolated { $0.stop() } }
        }
    }

    /// Ends the run early. No further operation begins.
    package func stop() {
        isStopped = true
        connected(.failure(CancellationError()))
        drain()
    }

    /// Makes up to `count` busy clients vanish: closes their connections as if their processes had died.
    /// - Returns: the number of clients that vanished.
    package func vanish(count: Int) -> Int {
        var vanished = 0
        // Starting at a random client avoids choosing the same clients every time.
        let clients = engine.clients
        guard !clients.isEmpty else { return 0 }
        let first = Int(engine.random.unit() * Double(clients.count))
        for offset in clients.indices where vanished < count {
            if clients[(first + offset) % clients.count].vanish() { vanished += 1 }
        }
        return vanished
    }

    /// Measures this process under `name` from now on, such as `redis` after a restart. Sidecars are followed
    /// automatically.
    package func follow(_ name: String, process: Int32) {
        engine.follow(name, process: process)
    }

    // MARK: Connecting

    private func connect() async throws {
        let plan = engine.plan
        for watch in engine.watches { watch.start() }
        guard plan.usesRESP else { return }
        let allowed = Duration.seconds(10) + .milliseconds(10 * plan.clients)
        let first = after(TimeAmount(Self.firstConnectionTimeout)) { [self] in
            if connectedClients.isEmpty { connectTimedOut(after: Self.firstConnectionTimeout) }
        }
        let timeout = after(TimeAmount(allowed)) { [self] in connectTimedOut(after: allowed) }
        engine.onConnection = { [self] client, error in
            if let error { clientFailed(client, error) } else { clientConnected(client) }
        }
        defer {
            first.cancel()
            timeout.cancel()
            engine.onConnection = nil
        }
        try await withCheckedThrowingContinuation { continuation in
            connectContinuation = continuation
            while connecting < min(Self.maximumConcurrentAttempts, plan.clients) { connectNext() }
        }
    }

    private func connectNext() {
        guard connecting < engine.clients.count else { return }
        connecting += 1
        engine.clients[connecting - 1].connect()
    }

    private func clientConnected(_ client: LoadClient) {
        guard connectedClients.insert(client.number).inserted else { return }
        connectNext()
        if connectedClients.count == engine.clients.count { connected(.success(())) }
    }

    private func clientFailed(_ client: LoadClient, _ error: InterlockError) {
        // The sidecar would give the same answer at the next attempt.
        guard error.isFromSidecar else { return }
        connected(.failure(LoadError("sidecar \(client.sidecar) rejects clients: \(error)")))
    }

    private func connectTimedOut(after allowed: Duration) {
        let late = engine.clients.first { !connectedClients.contains($0.number) }
        let reason = late?.lastFailure?.message ?? "no answer"
        connected(
            .failure(
                LoadError(
                    "only \(connectedClients.count) of \(engine.clients.count) connections were established in \(allowed); sidecar \(late?.sidecar ?? 0): \(reason)"
                )))
    }

    private func connected(_ result: Result<Void, any Error>) {
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
        _ begun: @Sendable () -> Void, _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async -> LoadOutcome {
        engine.follow("harness", process: getpid())
        if let redis = engine.plan.redisProcessID { engine.follow("redis", process: redis) }
        await waitUntilWatched()
        await withCheckedContinuation { continuation in engine.count { continuation.resume() } }
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let startedAt = Int64(wall.tv_sec) * 1000 + Int64(wall.tv_nsec) / 1_000_000
        engine.begin()
        begun()
        scheduleTick(1, since: .now(), progress)
        await waitUntilDrained()
        let end = engine.recorder.now()
        tickTimer?.cancel()
        await withCheckedContinuation { continuation in engine.count { continuation.resume() } }
        return engine.outcome(startedAt: startedAt, end: end)
    }

    private func after(_ pause: TimeAmount, _ body: @escaping () -> Void) -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    private func scheduleTick(_ number: Int64, since start: NIODeadline, _ progress: @escaping @Sendable (LoadProgress) -> Void) {
        tickTimer = eventLoop.assumeIsolated().scheduleTask(deadline: start + .seconds(number)) { [self] in
            engine.count {}
            progress(engine.progress)
            scheduleTick(number + 1, since: start, progress)
        }
    }

    /// Waits until every sidecar is watched or `watchTimeout` has passed. Sidecars that cannot be watched still receive
    /// load.
    private func waitUntilWatched() async {
        let timeout = after(Self.watchTimeout) { [self] in endWatchWait() }
        await withCheckedContinuation { continuation in
            watchContinuation = continuation
            for watch in engine.watches { watch.onWatching = { [self] in checkWatches() } }
            checkWatches()
        }
        timeout.cancel()
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
        let length = after(TimeAmount(engine.plan.duration)) { [self] in drain() }
        await withCheckedContinuation { continuation in
            drainContinuation = continuation
            if isStopped { drain() }
        }
        length.cancel()
    }

    private func drain() {
        guard drainContinuation != nil, engine.phase == .running else { return }
        drainTimeout = after(TimeAmount(engine.maximumDrainTime)) { [self] in endDrain() }
        engine.drain { [self] in endDrain() }
    }

    private func endDrain() {
        drainTimeout?.cancel()
        drainContinuation?.resume()
        drainContinuation = nil
    }
}

/// The file descriptors that a run needs.
enum FileDescriptors {
    /// - Throws: `LoadError` if fewer than `count` are allowed.
    static func provide(for count: Int) throws(LoadError) {
        guard let bound = OpenFileLimit.raiseToHardLimit(), bound < count else { return }
        throw LoadError(
            "these connections need \(count) open files, but the limit is \(bound); raise it (ulimit -Hn), or lower --clients"
        )
    }
}

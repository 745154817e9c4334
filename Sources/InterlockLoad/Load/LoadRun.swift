internal import InterlockCore
internal import InterlockJudge
internal import Glibc
internal import InterlockClient
internal import Interlock
package import NIOCore

/// A run of load against sidecars. Lives on one event loop, with its connections, its measures and the checkers of its
/// history: nothing of an operation changes the thread.
package actor LoadRun {
    private nonisolated let eventLoop: any EventLoop
    private let engine: LoadEngine
    private var connection: CheckedContinuation<Void, any Error>?
    /// How many clients have been told to connect, and which are or were connected.
    private var connecting = 0
    private var up = Set<Int>()
    private var watched: CheckedContinuation<Void, Never>?
    private var ticking: Scheduled<Void>?
    private var draining: Scheduled<Void>?
    private var drained: CheckedContinuation<Void, Never>?
    private var isStopped = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// How many connections are made at one time.
    private static let connectionsAtOnce = 64
    /// Beside those of the clients: to watch each sidecar, and what a process needs anyway.
    private static let otherDescriptors = 128
    /// How long to wait for the first connection.
    private static let firstConnection = Duration.seconds(3)
    /// How long a sidecar may take to let itself be watched.
    private static let watchPatience = TimeAmount.seconds(2)

    /// - Parameters:
    ///   - eventLoop: best one of its own.
    ///   - recorder: on the same event loop.
    /// - Throws: `LoadError` when the plan cannot be carried out.
    package init(plan: LoadPlan, eventLoop: any EventLoop, recorder: HistoryRecorder) throws {
        self.eventLoop = eventLoop
        engine = try LoadEngine(plan: plan, eventLoop: eventLoop, recorder: recorder)
    }

    /// Connects, drives the sidecars for as long as the plan says, and lets what is under way end. Runs once. When the task
    /// is cancelled it ends early, and what it measured until then is its outcome.
    /// - Parameters:
    ///   - progress: called once a second, on the event loop.
    ///   - begun: called on the event loop when all connections stand, as the first operation becomes due.
    /// - Throws: `LoadError` when the sidecars cannot be reached, or not that many connections can be made.
    package func run(
        progress: @escaping @Sendable (LoadProgress) -> Void = { _ in }, begun: @Sendable () -> Void = {}
    ) async throws -> LoadOutcome {
        precondition(engine.phase == .connecting && connecting == 0, "a run runs once")
        return try await withTaskCancellationHandler {
            try await attempt {
                try FileDescriptors.provide(for: engine.plan.clients + Self.otherDescriptors)
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

    /// Ends it early: nothing more begins.
    package func stop() {
        isStopped = true
        connected(.failure(CancellationError()))
        drain()
    }

    /// Makes clients vanish that wait for a lock or hold one, or call: their connections are closed as if they had died.
    /// - Returns: how many there were.
    package func vanish(count: Int) -> Int {
        var vanished = 0
        // From anywhere in the list, so that it is not always the same ones.
        let clients = engine.clients
        guard !clients.isEmpty else { return 0 }
        let first = Int(engine.random.unit() * Double(clients.count))
        for offset in clients.indices where vanished < count {
            if clients[(first + offset) % clients.count].vanish() { vanished += 1 }
        }
        return vanished
    }

    /// From now on the process that is measured as `name` is this one: `redis`, when it was started again. Sidecars are
    /// followed by themselves.
    package func follow(_ name: String, process: Int32) {
        engine.follow(name, process: process)
    }

    // MARK: Connecting

    private func connect() async throws {
        let plan = engine.plan
        for watch in engine.watches { watch.start() }
        guard plan.usesDoor else { return }
        let allowed = Duration.seconds(10) + .milliseconds(10 * plan.clients)
        let first = after(TimeAmount(Self.firstConnection)) { [self] in
            if up.isEmpty { connectingTook(Self.firstConnection) }
        }
        let timeout = after(TimeAmount(allowed)) { [self] in connectingTook(allowed) }
        engine.onConnection = { [self] client, error in
            if let error { isDown(client, error) } else { isUp(client) }
        }
        defer {
            first.cancel()
            timeout.cancel()
            engine.onConnection = nil
        }
        try await withCheckedThrowingContinuation { continuation in
            connection = continuation
            while connecting < min(Self.connectionsAtOnce, plan.clients) { connectNext() }
        }
    }

    private func connectNext() {
        guard connecting < engine.clients.count else { return }
        connecting += 1
        engine.clients[connecting - 1].connect()
    }

    private func isUp(_ client: LoadClient) {
        guard up.insert(client.number).inserted else { return }
        connectNext()
        if up.count == engine.clients.count { connected(.success(())) }
    }

    private func isDown(_ client: LoadClient, _ error: InterlockError) {
        // What a sidecar says itself it says again at the next attempt.
        guard error.isAnswer else { return }
        connected(.failure(LoadError("sidecar \(client.sidecar) refuses clients: \(error)")))
    }

    private func connectingTook(_ allowed: Duration) {
        let late = engine.clients.first { !up.contains($0.number) }
        let reason = late?.lastFailure?.message ?? "no answer"
        connected(
            .failure(
                LoadError(
                    "\(up.count) of \(engine.clients.count) connections to sidecars stood after \(allowed); sidecar \(late?.sidecar ?? 0): \(reason)"
                )))
    }

    private func connected(_ result: Result<Void, any Error>) {
        connection?.resume(with: result)
        connection = nil
    }

    private func close() async {
        let closing = engine.close()
        // Closing cannot fail: the futures are completed by this side alone.
        try? await closing.get()
        engine.forgetClients()
    }

    // MARK: Driving

    private func drive(
        _ begun: @Sendable () -> Void, _ progress: @escaping @Sendable (LoadProgress) -> Void
    ) async -> LoadOutcome {
        engine.follow("harness", process: getpid())
        if let redis = engine.plan.redisProcessID { engine.follow("redis", process: redis) }
        await untilWatched()
        await withCheckedContinuation { continuation in engine.count { continuation.resume() } }
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        let startedAt = Int64(wall.tv_sec) * 1000 + Int64(wall.tv_nsec) / 1_000_000
        engine.begin()
        begun()
        planTick(1, since: .now(), progress)
        await untilDrained()
        let end = engine.recorder.now()
        ticking?.cancel()
        await withCheckedContinuation { continuation in engine.count { continuation.resume() } }
        return engine.outcome(startedAt: startedAt, end: end)
    }

    private func after(_ pause: TimeAmount, _ body: @escaping () -> Void) -> Scheduled<Void> {
        eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    private func planTick(_ number: Int64, since start: NIODeadline, _ progress: @escaping @Sendable (LoadProgress) -> Void) {
        ticking = eventLoop.assumeIsolated().scheduleTask(deadline: start + .seconds(number)) { [self] in
            engine.count {}
            progress(engine.progress)
            planTick(number + 1, since: start, progress)
        }
    }

    /// Until every sidecar is watched, or it is clear that one cannot be: that one is driven all the same.
    private func untilWatched() async {
        let timeout = after(Self.watchPatience) { [self] in endWatchWait() }
        await withCheckedContinuation { continuation in
            watched = continuation
            for watch in engine.watches { watch.onWatching = { [self] in watchingBegan() } }
            watchingBegan()
        }
        timeout.cancel()
    }

    private func watchingBegan() {
        if engine.watches.allSatisfy(\.isWatching) { endWatchWait() }
    }

    private func endWatchWait() {
        for watch in engine.watches { watch.onWatching = nil }
        watched?.resume()
        watched = nil
    }

    private func untilDrained() async {
        let length = after(TimeAmount(engine.plan.duration)) { [self] in drain() }
        await withCheckedContinuation { continuation in
            drained = continuation
            if isStopped { drain() }
        }
        length.cancel()
    }

    private func drain() {
        guard drained != nil, engine.phase == .running else { return }
        draining = after(TimeAmount(engine.longestDrain)) { [self] in endDrain() }
        engine.drain { [self] in endDrain() }
    }

    private func endDrain() {
        draining?.cancel()
        drained?.resume()
        drained = nil
    }
}

/// The files and connections that a run needs.
enum FileDescriptors {
    /// - Throws: `LoadError` when fewer than `count` are allowed.
    static func provide(for count: Int) throws(LoadError) {
        guard let bound = OpenFileBound.raised(), bound < count else { return }
        throw LoadError(
            "these connections need \(count) open files, and \(bound) are allowed; raise the limit (ulimit -Hn), or use fewer --clients"
        )
    }
}

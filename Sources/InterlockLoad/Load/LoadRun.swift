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
    private var connection: CheckedContinuation<Void, any Error>?
    /// The number of clients that began to connect.
    private var connecting = 0
    private var up = Set<Int>()
    private var watched: CheckedContinuation<Void, Never>?
    private var ticking: Scheduled<Void>?
    private var draining: Scheduled<Void>?
    private var drained: CheckedContinuation<Void, Never>?
    private var isStopped = false

    package nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    /// The number of connections that are opened concurrently.
    private static let connectionsAtOnce = 64
    /// The file descriptors beyond those of the clients: for the watches of the sidecars and the process itself.
    private static let otherDescriptors = 128
    /// The time allowed for the first connection.
    private static let firstConnection = Duration.seconds(3)
    /// The time to wait for the subscriptions at the sidecars.
    private static let watchPatience = TimeAmount.seconds(2)

    /// - Parameters:
    ///   - eventLoop: the event loop of the run, best a dedicated one.
    ///   - recorder: a recorder on the same event loop.
    /// - Throws: `LoadError` if the plan cannot be carried out.
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
        // A random start keeps the choice from always hitting the same clients.
        let clients = engine.clients
        guard !clients.isEmpty else { return 0 }
        let first = Int(engine.random.unit() * Double(clients.count))
        for offset in clients.indices where vanished < count {
            if clients[(first + offset) % clients.count].vanish() { vanished += 1 }
        }
        return vanished
    }

    /// Assigns the measured process `name`, such as `redis` after a restart, to this process. Sidecars are followed
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
        // The sidecar would give the same answer at the next attempt.
        guard error.isAnswer else { return }
        connected(.failure(LoadError("sidecar \(client.sidecar) rejects clients: \(error)")))
    }

    private func connectingTook(_ allowed: Duration) {
        let late = engine.clients.first { !up.contains($0.number) }
        let reason = late?.lastFailure?.message ?? "no answer"
        connected(
            .failure(
                LoadError(
                    "only \(up.count) of \(engine.clients.count) connections were established in \(allowed); sidecar \(late?.sidecar ?? 0): \(reason)"
                )))
    }

    private func connected(_ result: Result<Void, any Error>) {
        connection?.resume(with: result)
        connection = nil
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

    /// Waits until every sidecar is watched or `watchPatience` has passed. Sidecars without a watch are driven all the
    /// same.
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

/// The file descriptors that a run needs.
enum FileDescriptors {
    /// - Throws: `LoadError` if fewer than `count` are allowed.
    static func provide(for count: Int) throws(LoadError) {
        guard let bound = OpenFileLimit.raised(), bound < count else { return }
        throw LoadError(
            "these connections need \(count) open files, but the limit is \(bound); raise it (ulimit -Hn), or lower --clients"
        )
    }
}

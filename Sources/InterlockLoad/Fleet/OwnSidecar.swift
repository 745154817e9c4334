internal import Glibc
internal import InterlockClient
internal import InterlockCore
internal import InterlockProcesses
internal import NIOConcurrencyHelpers

/// A sidecar of a fleet of the harness's own: a process that can be killed, stopped, and started again at the same address.
actor OwnSidecar {
    nonisolated let number: Int
    nonisolated let respPort: Int
    nonisolated let httpPort: Int

    private let words: [String]
    private var process: ServerProcess?

    /// How long it may take until a sidecar serves, or is gone.
    private static let timeout = Duration.seconds(30)
    private static let logLimit = 1 << 16
    /// What would tell every sidecar of the fleet the same.
    private static let foreignVariables = [
        "INTERLOCK_REDIS_URL", "INTERLOCK_RESP", "INTERLOCK_HTTP", "INTERLOCK_UNIX", "INTERLOCK_DATA_DIR",
    ]

    /// - Parameters:
    ///   - program: `interlock`.
    ///   - redisURL: of Redis, or of the proxy before it.
    ///   - folder: with the configuration `interlock.yaml`.
    init(number: Int, program: String, redisURL: String, folder: String) async throws {
        self.number = number
        respPort = try await LocalPort.unused()
        var other = try await LocalPort.unused()
        while other == respPort { other = try await LocalPort.unused() }
        httpPort = other
        words =
            Self.foreignVariables.flatMap { ["-u", $0] } + [
                program, "serve", "--config", "\(folder)/interlock.yaml", "--redis", redisURL, "--resp", "127.0.0.1:\(respPort)",
                "--http", "127.0.0.1:\(httpPort)", "--data-dir", "\(folder)/sidecar-\(number)",
            ]
    }

    /// The end of what it has said since it was last started.
    var log: String { process?.log ?? "" }

    /// `nil`: it does not run.
    var processID: Int32? { process?.processID }

    /// Starts it, and waits until it serves with its Redis connected.
    /// - Throws: `FleetError` with its log when it does not within half a minute.
    func start() async throws {
        let started = try await ServerProcess.start("env", arguments: words, logLimit: Self.logLimit)
        process = started
        do {
            try await eventually(within: Self.timeout, "sidecar \(number) is ready") {
                guard started.isRunning else {
                    throw FleetError("sidecar \(number) ended as soon as it was started", log: started.log)
                }
                return started.log.contains("is ready.")
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description, log: started.log)
        }
    }

    /// SIGKILL.
    /// - Throws: `FleetError` when it is still there half a minute later.
    func kill() async throws {
        guard let process else { return }
        process.send(signal: SIGKILL)
        try await finishing(within: Self.timeout, "sidecar \(number) is gone") { await process.waitUntilEnd() }
    }

    /// SIGSTOP: it keeps its connections and does nothing.
    func pause() {
        process?.send(signal: SIGSTOP)
    }

    /// Waits until its RESP door answers.
    /// - Throws: `FleetError` with its log when it does not within half a minute.
    func answer() async throws {
        var door = SidecarEndpoint.door(at: .tcp(host: "127.0.0.1", port: respPort))
        door.connectTimeout = .seconds(10)
        let client = SidecarClient(door)
        do {
            try await attempt {
                try await eventually(within: Self.timeout, "sidecar \(number) answers") {
                    do {
                        // A login ends with a PING.
                        try await client.connect()
                        return true
                    } catch let error as InterlockError {
                        // To ask for a key is an answer.
                        return error.isAnswer
                    }
                }
            } finally: {
                await client.close()
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description, log: log)
        }
    }

    /// SIGCONT.
    func resume() {
        process?.send(signal: SIGCONT)
    }
}

/// Runs `work` in a task of its own, which is not cancelled, and waits for it only so long.
/// - Parameters:
///   - limit: how long to wait; then `work` goes on unattended.
///   - expectation: what `work` is to bring about, for the error's message.
/// - Throws: `FleetError` when it takes longer; what `work` throws; `CancellationError`.
func finishing<Value: Sendable>(
    within limit: Duration, _ expectation: String, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let outcome = NIOLockedValueBox<Result<Value, any Error>?>(nil)
    Task {
        let result = await Result(awaiting: work)
        outcome.withLockedValue { $0 = result }
    }
    do {
        try await eventually(within: limit, expectation) { outcome.withLockedValue { $0 != nil } }
    } catch let error as DeadlineExceeded {
        throw FleetError(error.description)
    }
    guard let result = outcome.withLockedValue({ $0 }) else { throw FleetError("\(expectation): no outcome") }
    return try result.get()
}

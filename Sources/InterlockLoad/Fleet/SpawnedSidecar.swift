internal import Glibc
internal import InterlockClient
internal import InterlockCore
internal import InterlockProcesses
internal import NIOConcurrencyHelpers

/// A sidecar that the harness starts. The harness can kill it, stop it, and restart it at the same address.
actor SpawnedSidecar {
    nonisolated let number: Int
    nonisolated let respPort: Int
    nonisolated let httpPort: Int

    private let arguments: [String]
    private var process: ServerProcess?

    /// The time that a sidecar may take to become ready or to exit.
    private static let timeout = Duration.seconds(30)
    private static let logLimit = 1 << 16
    /// Environment variables that would override the settings of every sidecar in the fleet.
    private static let overridingVariables = [
        "INTERLOCK_REDIS_URL", "INTERLOCK_RESP", "INTERLOCK_HTTP", "INTERLOCK_UNIX", "INTERLOCK_DATA_DIR",
    ]

    /// Creates a sidecar that is not started yet, and chooses its ports.
    /// - Parameters:
    ///   - program: the path of `interlock`.
    ///   - redisURL: the URL of Redis, or of the proxy in front of it.
    ///   - folder: the directory with the configuration `interlock.yaml`.
    init(number: Int, program: String, redisURL: String, folder: String) async throws {
        self.number = number
        respPort = try await LocalPort.unused()
        var secondPort = try await LocalPort.unused()
        while secondPort == respPort { secondPort = try await LocalPort.unused() }
        httpPort = secondPort
        arguments =
            Self.overridingVariables.flatMap { ["-u", $0] } + [
                program, "serve", "--config", "\(folder)/interlock.yaml", "--redis", redisURL, "--resp", "127.0.0.1:\(respPort)",
                "--http", "127.0.0.1:\(httpPort)", "--data-dir", "\(folder)/sidecar-\(number)",
            ]
    }

    /// The last lines of output since the last start.
    var log: String { process?.log ?? "" }

    /// The ID of the process; `nil` if it is not running.
    var processID: Int32? { process?.processID }

    /// Starts the sidecar, and waits until it serves and is connected to its Redis.
    /// - Throws: `FleetError` with the log if the sidecar is not ready within half a minute.
    func start() async throws {
        let newProcess = try await ServerProcess.start("env", arguments: arguments, logLimit: Self.logLimit)
        process = newProcess
        do {
            try await eventually(within: Self.timeout, "sidecar \(number) is ready") {
                guard newProcess.isRunning else {
                    throw FleetError("sidecar \(number) exited during startup", log: newProcess.log)
                }
                return newProcess.log.contains("is ready.")
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description, log: newProcess.log)
        }
    }

    /// Kills the process with SIGKILL, and waits until it has exited.
    /// - Throws: `FleetError` if the process still exists after half a minute.
    func kill() async throws {
        guard let process else { return }
        process.send(signal: SIGKILL)
        try await runToCompletion(within: Self.timeout, "sidecar \(number) is gone") { await process.waitUntilEnd() }
    }

    /// Stops the process with SIGSTOP. The process keeps its connections.
    func pause() {
        process?.send(signal: SIGSTOP)
    }

    /// Waits until the RESP API answers.
    /// - Throws: `FleetError` with the log if the API does not answer within half a minute.
    func waitUntilAnswering() async throws {
        var resp = SidecarEndpoint.resp(at: .tcp(host: "127.0.0.1", port: respPort))
        resp.connectTimeout = .seconds(10)
        let client = SidecarClient(resp)
        do {
            try await withCleanup {
                try await eventually(within: Self.timeout, "sidecar \(number) answers") {
                    do {
                        // Connecting includes a PING.
                        try await client.connect()
                        return true
                    } catch let error as InterlockError {
                        // A rejected login is an answer too.
                        return error.isFromSidecar
                    }
                }
            } finally: {
                await client.close()
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description, log: log)
        }
    }

    /// Continues the process with SIGCONT.
    func resume() {
        process?.send(signal: SIGCONT)
    }
}

/// Runs `work` in a separate task that is never cancelled, and waits a limited time for the result.
/// - Parameters:
///   - limit: the maximum time to wait. After that, `work` continues, and its result is discarded.
///   - expectation: the expected result of `work`, for the error message.
/// - Throws: `FleetError` if `work` takes longer; the error of `work`; `CancellationError`.
func runToCompletion<Value: Sendable>(
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

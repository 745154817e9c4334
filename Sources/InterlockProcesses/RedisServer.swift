internal import Glibc
internal import InterlockCore
package import RedisClient

/// A `redis-server` process for one test. It has its own directory and listens on a Unix socket and, by default, on a
/// free TCP port of 127.0.0.1. It saves its data only on request and ends with the test process.
///
/// Use `withServer`, which always ends it.
package actor RedisServer {
    /// The listener in addition to the Unix socket.
    package enum Listener: Hashable, Sendable {
        /// No other listener.
        case none
        /// Plain TCP on 127.0.0.1.
        case tcp
        /// TLS on 127.0.0.1, with a new certificate.
        case tls
    }

    /// The server's working directory. Deleted at the end.
    package nonisolated var folder: String { temporaryFolder.path }
    package nonisolated var socketPath: String { "\(folder)/redis.sock" }
    /// The TCP or TLS port; `nil` if there is none. A restart keeps it.
    package nonisolated let port: Int?
    /// The certificate that clients of a `tls` listener must trust.
    package nonisolated let certificate: TestCertificate?

    private nonisolated let temporaryFolder: TemporaryFolder
    /// The password of `--requirepass`. Letters and digits only, because it becomes part of URLs.
    nonisolated let password: String?
    private let arguments: [String]
    private let environment: [String: String]
    private var process: ServerProcess?
    /// The logs of earlier processes.
    private var earlierLog = ""
    /// The maximum number of characters of `earlierLog`.
    private static let earlierLogLimit = 1 << 18

    private init(
        port: Int?, arguments: [String], listener: Listener, environment: [String: String],
        certificate shared: TestCertificate?
    ) async throws {
        temporaryFolder = try TemporaryFolder()
        self.port = port
        certificate =
            switch (listener, shared) {
            case (.tls, let shared?): shared
            case (.tls, nil): try await .selfSigned(in: temporaryFolder.path)
            case (.none, _), (.tcp, _): nil
            }
        password = arguments.firstIndex(of: "--requirepass").flatMap { index in
            arguments.indices.contains(index + 1) ? arguments[index + 1] : nil
        }
        self.arguments = arguments
        self.environment = environment
    }

    /// Starts a server and waits until it is ready.
    /// - Parameters:
    ///   - arguments: further arguments for the command line, such as `["--requirepass", "secret"]`.
    ///   - listener: the listener in addition to the Unix socket.
    ///   - environment: variables in addition to those of this process.
    ///   - certificate: the certificate of a `tls` listener; `nil` to create one.
    /// - Throws: `RedisServerError` with the server's log if it is not ready within 20 s. If another process took its
    ///   port meanwhile, another port is tried first.
    package static func start(
        arguments: [String] = [], listener: Listener = .tcp, environment: [String: String] = [:],
        certificate: TestCertificate? = nil
    ) async throws -> RedisServer {
        func started(at port: Int?) async throws -> RedisServer {
            let server = try await RedisServer(
                port: port, arguments: arguments, listener: listener, environment: environment, certificate: certificate)
            do {
                try await server.launch(untilReady: true)
                return server
            } catch {
                await server.remove()
                throw error
            }
        }
        return try await listener == .none ? started(at: nil) : LocalPort.withUnused { try await started(at: $0) }
    }

    /// Starts a server, runs `body`, and always ends the server. Prints the server's log if `body` throws.
    ///
    /// For the parameters see `start`.
    package static func withServer<Result>(
        arguments: [String] = [],
        listener: Listener = .tcp,
        environment: [String: String] = [:],
        _ body: (RedisServer) async throws -> Result
    ) async throws -> Result {
        let server = try await start(arguments: arguments, listener: listener, environment: environment)
        return try await attempt {
            try await body(server)
        } onError: { error in
            print("The log of redis-server in \(server.folder), whose test failed with \(error):\n\(await server.log)")
        } finally: {
            await server.remove()
        }
    }

    /// The server's output since its first start; only the end if it is long.
    package var log: String { earlierLog + (process?.log ?? "") }

    /// The ID of the server's process; `nil` if it does not run. Each start has a new one.
    package var processID: Int32? { process?.processID }

    /// Ends the server as an operator would: SIGTERM, then SIGKILL after 5 s.
    package func stop() async {
        await process?.stop(gracePeriod: .seconds(5))
    }

    /// Ends the server as a crash would: SIGKILL.
    package func kill() async {
        process?.send(signal: SIGKILL)
        await process?.waitUntilEnd()
    }

    /// Stops the server (SIGSTOP): it keeps its connections and answers nothing.
    package func pause() {
        process?.send(signal: SIGSTOP)
    }

    /// Continues after `pause`.
    package func resume() {
        process?.send(signal: SIGCONT)
    }

    /// Restarts the server on the same socket and port. Ends it first if it runs.
    /// - Parameters:
    ///   - keepingData: whether a running server saves its data first. A killed server restarts with its last saved
    ///     data.
    ///   - addedArguments: arguments for this start only.
    ///   - untilReady: whether to wait until it is ready.
    /// - Throws: `RedisServerError` if it cannot save its data or does not become ready.
    package func restart(
        keepingData: Bool = true, addedArguments: [String] = [], untilReady: Bool = true
    ) async throws {
        if keepingData, process?.isRunning ?? false { try await save() }
        await kill()
        if !keepingData { temporaryFolder.removeData() }
        try await launch(untilReady: untilReady, addedArguments: addedArguments)
    }

    /// Waits until Redis tracks `count` pairs of a connection and a key that it has read. By then, these connections
    /// have also received everything that was published before.
    /// - Throws: `DeadlineExceeded` or `RedisError`.
    package func waitUntilTracking(_ count: Int) async throws {
        let client = RedisClient(configuration: configuration)
        try await attempt {
            try await client.connect()
            try await eventually("Redis notifies \(count) connections of the next change to a key") {
                let report = try await client.send(AnyCommand(["INFO", "stats"])).text ?? ""
                return report.split(separator: "\r\n").contains("tracking_total_items:\(count)")
            }
        } finally: {
            await client.close()
        }
    }

    /// Ends the server and deletes its directory.
    package func remove() async {
        await kill()
        temporaryFolder.remove()
    }

    private func launch(untilReady: Bool, addedArguments: [String] = []) async throws {
        earlierLog = String(log.suffix(Self.earlierLogLimit))
        process = nil
        // `env` sets the variables for the server only, so that `setpriv` does not preload a library for it.
        let command = environment.map { "\($0.key)=\($0.value)" } + ["redis-server"]
        let launched = try await ServerProcess.start("env", arguments: command + baseArguments + arguments + addedArguments)
        process = launched
        if untilReady { try await waitUntilReady(launched) }
    }

    private var baseArguments: [String] {
        var words = ["--dir", folder, "--unixsocket", socketPath, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        switch (port, certificate) {
        case (nil, _):
            words += ["--port", "0"]
        case (let port?, nil):
            words += ["--port", "\(port)"]
        case (let port?, let certificate?):
            words += ["--port", "0", "--tls-port", "\(port)", "--tls-auth-clients", "no"]
            words += ["--tls-cert-file", certificate.certificatePath, "--tls-key-file", certificate.keyPath]
        }
        return words
    }

    /// Waits until the server answers with anything but "loading". A login error counts as an answer.
    private func waitUntilReady(_ launched: ServerProcess) async throws {
        var probe = configuration
        probe.reconnectDelay = .milliseconds(2) ... .milliseconds(50)
        let client = RedisClient(configuration: probe)
        do {
            try await attempt {
                try await eventually(within: .seconds(20), "redis-server serves") {
                    do {
                        try await client.connect()
                        return true
                    } catch let error as RedisError {
                        if case .server(let condition) = error.code { return condition != .loading }
                        guard launched.isRunning else {
                            throw RedisServerError(reason: "redis-server exited right after it started", log: launched.log)
                        }
                        return false
                    }
                }
            } finally: {
                await client.close()
            }
        } catch let error as DeadlineExceeded {
            throw RedisServerError(reason: error.description, log: launched.log)
        }
    }

    private func save() async throws {
        let client = RedisClient(configuration: configuration)
        let outcome = await Result(awaiting: {
            try await client.connect()
            return try await client.send(AnyCommand(["SAVE"]), timeout: .seconds(20))
        })
        await client.close()
        guard case .success(.status("OK")) = outcome else {
            throw RedisServerError(reason: "redis-server could not save its data: \(outcome)", log: log)
        }
    }
}

extension RedisServer {
    /// The configuration of the Unix socket, with the password of `--requirepass` and long timeouts for a busy machine.
    package nonisolated var configuration: RedisConfiguration {
        var configuration = RedisConfiguration(address: .unixSocket(path: socketPath))
        configuration.password = password
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    /// The Unix socket as a URL: `unix:///tmp/…/redis.sock`, with the password of `--requirepass`.
    package nonisolated var url: String { "unix://\(credentials)\(socketPath)" }

    /// The port as a URL, `redis://127.0.0.1:PORT`, or `rediss://` with TLS; `nil` if there is no port.
    package nonisolated var portURL: String? {
        port.map { "\(certificate == nil ? "redis" : "rediss")://\(credentials)127.0.0.1:\($0)" }
    }

    private nonisolated var credentials: String {
        password.map { ":\($0)@" } ?? ""
    }
}

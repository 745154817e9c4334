internal import Glibc
internal import InterlockCore
package import RedisClient

/// A `redis-server` process for one test. It has its own directory and listens on a Unix socket and, by default, on a
/// free TCP port of 127.0.0.1. It saves its data only on request and ends with the test process.
///
/// Use `withServer`, which ends the server even if the test fails.
package actor RedisServer {
    /// The listener in addition to the Unix socket.
    package enum Listener: Hashable, Sendable {
        /// Only the Unix socket.
        case none
        /// Plain TCP on 127.0.0.1.
        case tcp
        /// TLS on 127.0.0.1, with a new certificate.
        case tls
    }

    /// The server's working directory, which `remove` deletes.
    package nonisolated var folder: String { temporaryFolder.path }
    package nonisolated var socketPath: String { "\(folder)/redis.sock" }
    /// The TCP or TLS port, which a restart keeps; `nil` if only the Unix socket is open.
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
    /// The maximum number of characters in `earlierLog`.
    private static let maximumEarlierLogCharacters = 1 << 18

    private init(
        port: Int?, arguments: [String], listener: Listener, environment: [String: String],
        certificate sharedCertificate: TestCertificate?
    ) async throws {
        temporaryFolder = try TemporaryFolder()
        self.port = port
        certificate =
            switch (listener, sharedCertificate) {
            case (.tls, let sharedCertificate?): sharedCertificate
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
    /// - Throws: `RedisServerError` with the server's log if it is not ready within 20 seconds. If another process has
    ///   taken its port, tries other ports first.
    package static func start(
        arguments: [String] = [], listener: Listener = .tcp, environment: [String: String] = [:],
        certificate: TestCertificate? = nil
    ) async throws -> RedisServer {
        func startServer(at port: Int?) async throws -> RedisServer {
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
        return try await listener == .none
            ? startServer(at: nil) : LocalPort.withUnused { try await startServer(at: $0) }
    }

    /// Starts a server, runs `body`, and always ends the server. Prints the server's log if `body` throws.
    ///
    /// See `start` for the parameters.
    package static func withServer<Result>(
        arguments: [String] = [],
        listener: Listener = .tcp,
        environment: [String: String] = [:],
        _ body: (RedisServer) async throws -> Result
    ) async throws -> Result {
        let server = try await start(arguments: arguments, listener: listener, environment: environment)
        return try await withCleanup {
            try await body(server)
        } onError: { error in
            print("The log of redis-server in \(server.folder), whose test failed with \(error):\n\(await server.log)")
        } finally: {
            await server.remove()
        }
    }

    /// The server's output since its first start, or only its end if it is long.
    package var log: String { earlierLog + (process?.log ?? "") }

    /// The ID of the server's process; `nil` if the server is not running. Each start creates a new process.
    package var processID: Int32? { process?.processID }

    /// Ends the server as an operator would, with SIGTERM, and with SIGKILL after 5 seconds.
    package func stop() async {
        await process?.stop(gracePeriod: .seconds(5))
    }

    /// Ends the server as a crash would, with SIGKILL.
    package func kill() async {
        process?.send(signal: SIGKILL)
        await process?.waitUntilEnd()
    }

    /// Stops the server with SIGSTOP. It keeps its connections, but does not reply.
    package func pause() {
        process?.send(signal: SIGSTOP)
    }

    /// Lets the server continue after `pause`.
    package func resume() {
        process?.send(signal: SIGCONT)
    }

    /// Restarts the server on the same socket and port. Ends it first if it is running.
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

    /// Waits until Redis tracks `count` pairs of a connection and a key that the connection has read. By then, these
    /// connections have also received everything that was published earlier.
    /// - Throws: `DeadlineExceeded` or `RedisError`.
    package func waitUntilTracking(_ count: Int) async throws {
        let client = RedisClient(configuration: configuration)
        try await withCleanup {
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

    /// Starts a process of the server.
    private func launch(untilReady: Bool, addedArguments: [String] = []) async throws {
        earlierLog = String(log.suffix(Self.maximumEarlierLogCharacters))
        process = nil
        // `env` sets the variables only for the server, so that `setpriv` does not preload a library for itself.
        let command = environment.map { "\($0.key)=\($0.value)" } + ["redis-server"]
        let launched = try await ServerProcess.start("env", arguments: command + baseArguments + arguments + addedArguments)
        process = launched
        if untilReady { try await waitUntilReady(launched) }
    }

    private var baseArguments: [String] {
        var arguments = [
            "--dir", folder, "--unixsocket", socketPath, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        ]
        switch (port, certificate) {
        case (nil, _):
            arguments += ["--port", "0"]
        case (let port?, nil):
            arguments += ["--port", "\(port)"]
        case (let port?, let certificate?):
            arguments += ["--port", "0", "--tls-port", "\(port)", "--tls-auth-clients", "no"]
            arguments += ["--tls-cert-file", certificate.certificatePath, "--tls-key-file", certificate.keyPath]
        }
        return arguments
    }

    /// Waits until the server replies with anything but "loading", including a login error.
    private func waitUntilReady(_ launched: ServerProcess) async throws {
        var probeConfiguration = configuration
        probeConfiguration.reconnectDelay = .milliseconds(2) ... .milliseconds(50)
        let client = RedisClient(configuration: probeConfiguration)
        do {
            try await withCleanup {
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

    /// Makes the server save its data.
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
    /// A client configuration for the Unix socket, with the password of `--requirepass` and long timeouts for a busy
    /// machine.
    package nonisolated var configuration: RedisConfiguration {
        var configuration = RedisConfiguration(address: .unixSocket(path: socketPath))
        configuration.password = password
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    /// The URL of the Unix socket, `unix:///tmp/…/redis.sock`, with the password of `--requirepass`.
    package nonisolated var url: String { "unix://\(credentials)\(socketPath)" }

    /// The URL of the port, `redis://127.0.0.1:PORT`, or `rediss://` with TLS; `nil` if there is no port.
    package nonisolated var portURL: String? {
        port.map { "\(certificate == nil ? "redis" : "rediss")://\(credentials)127.0.0.1:\($0)" }
    }

    private nonisolated var credentials: String {
        password.map { ":\($0)@" } ?? ""
    }
}

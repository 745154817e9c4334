internal import FoundationEssentials
internal import Glibc
internal import InterlockCore
package import RedisClient

/// A primary, its replicas and the Sentinels that monitor them. All are real servers, in new directories and on free
/// ports of 127.0.0.1, and end with this process.
package actor SentinelFleet {
    /// The name of the primary in the Sentinels' configuration.
    package static let primaryName = "main"
    /// The time without a reply after which a Sentinel considers a server to be down.
    private static let downAfterMilliseconds = 600
    /// The ACL user of the Sentinels.
    fileprivate static let user = "sentinel"
    /// The Sentinels' password. Letters and digits only, because it is written to configuration files.
    fileprivate static let password = "watches"
    /// The maximum wait for the fleet to recover. Sentinels watch a server that is back for about ten seconds before
    /// they make it a replica.
    private static let recoveryTimeout = Duration.seconds(60)

    /// The servers, of which the first is the initial primary.
    package nonisolated let servers: [RedisServer]
    package nonisolated let sentinels: [Sentinel]
    private var lostPrimary: (server: RedisServer, loss: PrimaryLoss)?

    /// The certificate that servers and Sentinels present to each other and to clients; `nil` without TLS.
    package nonisolated let certificate: TestCertificate?
    private nonisolated let folder: TemporaryFolder?

    private init(
        servers: [RedisServer], sentinels: [Sentinel], certificate: TestCertificate? = nil, folder: TemporaryFolder? = nil
    ) {
        self.servers = servers
        self.sentinels = sentinels
        self.certificate = certificate
        self.folder = folder
    }

    /// Starts servers and Sentinels, and waits until all know each other.
    /// - Parameters:
    ///   - replicas: the number of replicas.
    ///   - sentinels: the number of Sentinels, a majority of which must agree.
    ///   - usesTLS: whether they use TLS with each other and with clients.
    ///   - arguments: further arguments of every server.
    /// - Throws: `RedisServerError` or `DeadlineExceeded`, after ending everything that was started.
    package static func start(
        replicas: Int = 2, sentinels sentinelCount: Int = 3, usesTLS: Bool = false, arguments: [String] = []
    ) async throws -> SentinelFleet {
        var servers: [RedisServer] = []
        var sentinels: [Sentinel] = []
        let folder = usesTLS ? try TemporaryFolder() : nil
        var certificate: TestCertificate?
        if let folder { certificate = try await .selfSigned(in: folder.path) }
        let tls = certificate.map { ["--tls-replication", "yes", "--tls-ca-cert-file", $0.certificatePath] } ?? []
        func server(_ arguments: [String]) async throws -> RedisServer {
            try await RedisServer.start(arguments: arguments, listener: usesTLS ? .tls : .tcp, certificate: certificate)
        }
        // With this backlog, a replica that was disconnected for a short time needs only a partial resynchronization.
        let baseArguments =
            arguments + tls + [
                "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "32mb",
                "--user", user, "on", ">\(password)", "allchannels", "+@all",
            ]
        do {
            servers.append(try await server(baseArguments))
            let primaryPort = servers[0].port ?? 0
            for _ in 0..<replicas {
                servers.append(try await server(baseArguments + ["--replicaof", "127.0.0.1", "\(primaryPort)"]))
            }
            for _ in 0..<sentinelCount {
                sentinels.append(
                    try await Sentinel.start(
                        watching: primaryPort, quorum: sentinelCount / 2 + 1, downAfterMilliseconds, certificate))
            }
            let fleet = SentinelFleet(servers: servers, sentinels: sentinels, certificate: certificate, folder: folder)
            try await fleet.waitUntilHealthy()
            for sentinel in sentinels { try await shortenPeriods(of: sentinel) }
            return fleet
        } catch {
            await SentinelFleet(servers: servers, sentinels: sentinels, folder: folder).remove()
            throw error
        }
    }

    /// Makes a Sentinel check servers more often, so that a server that is back becomes a replica after two seconds
    /// instead of ten.
    private static func shortenPeriods(of sentinel: Sentinel) async throws {
        _ = try await sentinel.ask(["SENTINEL", "DEBUG", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500"])
    }

    /// Starts a fleet, runs `body`, and always ends the fleet. Prints all logs if `body` throws. See `start` for the
    /// parameters.
    package static func withFleet<Result>(
        replicas: Int = 2, sentinels: Int = 3, usesTLS: Bool = false, arguments: [String] = [],
        _ body: (SentinelFleet) async throws -> Result
    ) async throws -> Result {
        let fleet = try await start(replicas: replicas, sentinels: sentinels, usesTLS: usesTLS, arguments: arguments)
        return try await withCleanup {
            try await body(fleet)
        } onError: { error in
            print("The logs of a fleet whose test failed with \(error):\n\(await fleet.logs)")
        } finally: {
            await fleet.remove()
        }
    }

    /// Ends all servers and Sentinels, and deletes their directories.
    package func remove() async {
        for sentinel in sentinels { await sentinel.remove() }
        for server in servers { await server.remove() }
        folder?.remove()
    }

    /// The end of each process's log.
    package var logs: String {
        get async {
            var logs = ""
            for sentinel in sentinels { logs += "Sentinel at \(sentinel.port):\n\(await sentinel.log.suffix(1 << 14))\n" }
            for server in servers { logs += "redis-server at \(server.port ?? 0):\n\(await server.log.suffix(1 << 13))\n" }
            return logs
        }
    }

    /// The URL for a sidecar, `redis+sentinel://…`.
    package nonisolated var url: String {
        "\(certificate == nil ? "redis" : "rediss")+sentinel://\(sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ","))/\(Self.primaryName)"
    }

    /// The configuration for `url`, with timeouts for a busy machine.
    package nonisolated var configuration: RedisConfiguration {
        let hosts = sentinels.map { RedisConfiguration.Address.host("127.0.0.1", port: $0.port) }
        var configuration = RedisConfiguration(
            address: .primary(of: SentinelSettings(sentinels: hosts, primary: Self.primaryName)))
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    // MARK: Failovers

    /// Returns the server that a majority of the Sentinels reports as the primary.
    /// - Throws: `DeadlineExceeded` if they do not agree in time.
    package func primary() async throws -> RedisServer {
        var agreedPrimary: RedisServer?
        try await eventually(within: Self.recoveryTimeout, "a majority of the Sentinels reports one primary") {
            var votes: [Int: Int] = [:]
            for sentinel in sentinels {
                if let port = try? await sentinel.primaryPort() { votes[port, default: 0] += 1 }
            }
            guard let port = votes.first(where: { $0.value > sentinels.count / 2 })?.key else { return false }
            agreedPrimary = servers.first { $0.port == port }
            return agreedPrimary != nil
        }
        guard let agreedPrimary else {
            throw RedisServerError(reason: "the Sentinels report an unknown server", log: await logs)
        }
        return agreedPrimary
    }

    /// Takes the primary down, or makes it unreachable for the Sentinels.
    package func losePrimary(_ loss: PrimaryLoss) async throws {
        let server = try await primary()
        lostPrimary = (server, loss)
        switch loss {
        case .killed: await server.kill()
        case .stopped: await server.pause()
        case .cutOff:
            // Make the server reply with errors, which Sentinels treat like no reply.
            _ = try await server.ask(["ACL", "SETUSER", Self.user, "nocommands"])
        }
    }

    /// Waits until another server is the primary, brings the lost one back, and waits until the Sentinels have made it
    /// a replica. If a killed server came back earlier, it would remain the primary, without its data.
    package func recover() async throws {
        if let (server, loss) = lostPrimary {
            try await eventually(within: Self.recoveryTimeout, "another server is the primary") { try await primary() !== server }
            lostPrimary = nil
            switch loss {
            case .killed: try await server.restart(keepingData: true)
            case .stopped: await server.resume()
            case .cutOff:
                try await eventually(within: Self.recoveryTimeout, "Sentinels may talk to the server again") {
                    (try? await server.ask(["ACL", "SETUSER", Self.user, "allcommands"]))?.text == "OK"
                }
            }
        }
        try await waitUntilHealthy()
    }

    /// Waits until every Sentinel knows the others and all servers, and every other server replicates the primary.
    private func waitUntilHealthy() async throws {
        try await eventually(within: Self.recoveryTimeout, "the Sentinels know each other, and every replica follows the primary")
        {
            let primary = try await primary()
            for sentinel in sentinels {
                let fields = (try? await sentinel.fields()) ?? [:]
                guard fields["num-slaves"] == "\(servers.count - 1)", fields["num-other-sentinels"] == "\(sentinels.count - 1)",
                    fields["flags"] == "master", fields["port"] == primary.port.map({ "\($0)" })
                else { return false }
            }
            for server in servers where server !== primary {
                // Sentinels close a server's connections when they change its role.
                let report = (try? await server.ask(["INFO", "replication"]))?.text ?? ""
                let lines = report.split(separator: "\r\n").map { String($0) }
                guard lines.contains("master_port:\(primary.port ?? 0)"), lines.contains("master_link_status:up") else {
                    return false
                }
            }
            return true
        }
    }
}

/// One Sentinel process of a fleet.
package actor Sentinel {
    package nonisolated let port: Int
    private let folder: TemporaryFolder
    private let process: ServerProcess
    private nonisolated let certificate: TestCertificate?

    private init(port: Int, folder: TemporaryFolder, process: ServerProcess, certificate: TestCertificate?) {
        self.port = port
        self.certificate = certificate
        self.folder = folder
        self.process = process
    }

    fileprivate static func start(
        watching primaryPort: Int, quorum: Int, _ downAfterMilliseconds: Int, _ certificate: TestCertificate?
    ) async throws -> Sentinel {
        try await LocalPort.withUnused { port in
            try await start(at: port, watching: primaryPort, quorum: quorum, downAfterMilliseconds, certificate)
        }
    }

    private static func start(
        at port: Int, watching primaryPort: Int, quorum: Int, _ downAfterMilliseconds: Int,
        _ certificate: TestCertificate?
    ) async throws -> Sentinel {
        let folder = try TemporaryFolder()
        let name = SentinelFleet.primaryName
        let listener =
            certificate.map {
                [
                    "port 0", "tls-port \(port)", "tls-cert-file \($0.certificatePath)", "tls-key-file \($0.keyPath)",
                    "tls-ca-cert-file \($0.certificatePath)", "tls-auth-clients no", "tls-replication yes",
                ]
            } ?? ["port \(port)"]
        let lines =
            listener + [
                "bind 127.0.0.1", "dir \(folder.path)", "sentinel monitor \(name) 127.0.0.1 \(primaryPort) \(quorum)",
                "sentinel down-after-milliseconds \(name) \(downAfterMilliseconds)",
                "sentinel failover-timeout \(name) 6000",
                "sentinel parallel-syncs \(name) 5", "sentinel auth-user \(name) \(SentinelFleet.user)",
                "sentinel auth-pass \(name) \(SentinelFleet.password)",
            ]
        // A Sentinel rewrites its configuration file, so each needs its own.
        let file = "\(folder.path)/sentinel.conf"
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: file))
        let process = try await ServerProcess.start("redis-server", arguments: [file, "--sentinel"])
        let sentinel = Sentinel(port: port, folder: folder, process: process, certificate: certificate)
        do {
            try await eventually(within: .seconds(20), "a Sentinel answers") {
                guard process.isRunning else { throw RedisServerError(reason: "a Sentinel exited", log: process.log) }
                return (try? await sentinel.ask(["PING"])) != nil
            }
        } catch {
            await sentinel.remove()
            throw error as? RedisServerError ?? RedisServerError(reason: "\(error)", log: process.log)
        }
        return sentinel
    }

    package var log: String { process.log }

    /// Sends one command over a dedicated connection and returns the reply.
    package nonisolated func ask(_ words: [String]) async throws -> RedisReply {
        var configuration = RedisConfiguration(address: .host("127.0.0.1", port: port))
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        if let certificate { configuration.trust(certificate) }
        return try await RedisClient.ask(words, at: configuration)
    }

    /// Returns the fields with which the Sentinel describes the primary.
    package nonisolated func fields() async throws -> [String: String] {
        let words = try await ask(["SENTINEL", "MASTER", SentinelFleet.primaryName]).array?.map { $0.text ?? "" } ?? []
        return Dictionary(
            stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) }, uniquingKeysWith: { $1 })
    }

    /// Returns the port of the primary that the Sentinel reports.
    package nonisolated func primaryPort() async throws -> Int? {
        try await ask(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelFleet.primaryName]).array?.last?.integer
            .flatMap { Int(exactly: $0) }
    }

    /// Stops the Sentinel with SIGSTOP. It keeps its connections, but does not reply.
    package func pause() { process.send(signal: SIGSTOP) }

    /// Lets the Sentinel continue after `pause`.
    package func resume() { process.send(signal: SIGCONT) }

    /// Kills the Sentinel with SIGKILL.
    package func kill() async {
        process.send(signal: SIGKILL)
        await process.waitUntilEnd()
    }

    fileprivate func remove() async {
        await kill()
        folder.remove()
    }
}

extension RedisServer {
    /// Sends one command over a dedicated connection and returns the reply.
    package nonisolated func ask(_ words: [String]) async throws -> RedisReply {
        try await RedisClient.ask(words, at: configuration)
    }
}

extension RedisClient {
    /// Sends one command to a server over a dedicated connection and returns the reply.
    package static func ask(_ words: [String], at configuration: RedisConfiguration) async throws -> RedisReply {
        let client = RedisClient(configuration: configuration)
        return try await withCleanup {
            try await client.connect()
            return try await client.send(AnyCommand(words))
        } finally: {
            await client.close()
        }
    }
}

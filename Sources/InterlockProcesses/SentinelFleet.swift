internal import FoundationEssentials
internal import Glibc
internal import InterlockCore
package import RedisClient

/// A primary, its replicas, and Sentinels that watch them: real servers in fresh folders, on free ports of 127.0.0.1. They end with
/// this process.
package actor SentinelFleet {
    /// What the Sentinels call the primary.
    package static let primaryName = "main"
    /// After so many milliseconds without an answer a Sentinel believes that a server is down.
    private static let downAfter = 600
    /// The user that the Sentinels are at the servers.
    fileprivate static let user = "sentinel"
    /// Letters and digits only: it stands in configurations.
    fileprivate static let password = "watches"
    /// How long a returned server may take to become a replica: Sentinels look at it for some ten seconds before they make it one.
    private static let patience = Duration.seconds(60)

    /// The first is the primary to begin with.
    package nonisolated let servers: [RedisServer]
    package nonisolated let sentinels: [Sentinel]
    private var lost: (server: RedisServer, loss: PrimaryLoss)?

    /// What servers and Sentinels show each other and clients; `nil`: they speak without TLS.
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
    ///   - replicas: beside the primary.
    ///   - sentinels: of which a majority must agree.
    ///   - usesTLS: between all of them, and to clients.
    ///   - arguments: of every server.
    /// - Throws: `RedisServerError` or `DeadlineExceeded`; nothing is left running then.
    package static func start(
        replicas: Int = 2, sentinels count: Int = 3, usesTLS: Bool = false, arguments: [String] = []
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
        // A replica that was cut off for a moment asks for what it missed, not for everything.
        let own =
            arguments + tls + [
                "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "32mb",
                "--user", user, "on", ">\(password)", "allchannels", "+@all",
            ]
        do {
            servers.append(try await server(own))
            let primary = servers[0].port ?? 0
            for _ in 0..<replicas {
                servers.append(try await server(own + ["--replicaof", "127.0.0.1", "\(primary)"]))
            }
            for _ in 0..<count {
                sentinels.append(try await Sentinel.start(watching: primary, quorum: count / 2 + 1, downAfter, certificate))
            }
            let fleet = SentinelFleet(servers: servers, sentinels: sentinels, certificate: certificate, folder: folder)
            try await fleet.untilWhole()
            // They look at a server that is back more often than they do by default, and make it a replica after two seconds instead
            // of ten.
            for sentinel in sentinels {
                _ = try await sentinel.ask(["SENTINEL", "DEBUG", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500"])
            }
            return fleet
        } catch {
            await SentinelFleet(servers: servers, sentinels: sentinels, folder: folder).remove()
            throw error
        }
    }

    /// Starts a fleet, runs `body`, and always ends it. Prints all logs if `body` throws. For the parameters see `start`.
    package static func withFleet<Result>(
        replicas: Int = 2, sentinels: Int = 3, usesTLS: Bool = false, arguments: [String] = [],
        _ body: (SentinelFleet) async throws -> Result
    ) async throws -> Result {
        let fleet = try await start(replicas: replicas, sentinels: sentinels, usesTLS: usesTLS, arguments: arguments)
        return try await attempt {
            try await body(fleet)
        } onError: { error in
            print("The logs of a fleet whose test failed with \(error):\n\(await fleet.logs)")
        } finally: {
            await fleet.remove()
        }
    }

    /// Ends all servers and Sentinels, and deletes their folders.
    package func remove() async {
        for sentinel in sentinels { await sentinel.remove() }
        for server in servers { await server.remove() }
        folder?.remove()
    }

    /// The end of what each has said.
    package var logs: String {
        get async {
            var logs = ""
            for sentinel in sentinels { logs += "Sentinel at \(sentinel.port):\n\(await sentinel.log.suffix(1 << 14))\n" }
            for server in servers { logs += "redis-server at \(server.port ?? 0):\n\(await server.log.suffix(1 << 13))\n" }
            return logs
        }
    }

    /// What a sidecar is told: `redis+sentinel://…`.
    package nonisolated var url: String {
        "\(certificate == nil ? "redis" : "rediss")+sentinel://\(sentinels.map { "127.0.0.1:\($0.port)" }.joined(separator: ","))/\(Self.primaryName)"
    }

    /// The same, with timeouts for a busy machine.
    package nonisolated var configuration: RedisConfiguration {
        let hosts = sentinels.map { RedisConfiguration.Address.host("127.0.0.1", port: $0.port) }
        var configuration = RedisConfiguration(
            address: .primary(of: SentinelSettings(sentinels: hosts, primary: Self.primaryName)))
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    // MARK: Failovers

    /// The server that a majority of the Sentinels names.
    /// - Throws: `DeadlineExceeded` when they do not agree in time.
    package func primary() async throws -> RedisServer {
        var found: RedisServer?
        try await eventually(within: Self.patience, "a majority of the Sentinels names one primary") {
            var votes: [Int: Int] = [:]
            for sentinel in sentinels {
                if let port = try? await sentinel.primaryPort() { votes[port, default: 0] += 1 }
            }
            guard let port = votes.first(where: { $0.value > sentinels.count / 2 })?.key else { return false }
            found = servers.first { $0.port == port }
            return found != nil
        }
        guard let found else { throw RedisServerError(reason: "the Sentinels name a foreign server", log: await logs) }
        return found
    }

    /// Takes the primary away from the Sentinels.
    package func losePrimary(_ loss: PrimaryLoss) async throws {
        let server = try await primary()
        lost = (server, loss)
        switch loss {
        case .killed: await server.kill()
        case .stopped: await server.pause()
        case .cutOff:
            // What is refused is no answer to a Sentinel.
            _ = try await server.ask(["ACL", "SETUSER", Self.user, "nocommands"])
        }
    }

    /// Waits until another server is the primary, and gives the lost one back as it is: it believes that it is the primary until
    /// Sentinels have told it otherwise. Waits for that too. A killed one that came back before would be it, and empty.
    package func mend() async throws {
        if let (server, loss) = lost {
            try await eventually(within: Self.patience, "another server is the primary") { try await primary() !== server }
            lost = nil
            switch loss {
            case .killed: try await server.restart(keepingData: true)
            case .stopped: await server.resume()
            case .cutOff:
                try await eventually(within: Self.patience, "Sentinels may speak to the server again") {
                    (try? await server.ask(["ACL", "SETUSER", Self.user, "allcommands"]))?.text == "OK"
                }
            }
        }
        try await untilWhole()
    }

    /// Until every Sentinel knows of the other ones and of every server, and every other server follows the primary.
    private func untilWhole() async throws {
        try await eventually(within: Self.patience, "the Sentinels know each other, and every replica follows the primary") {
            let primary = try await primary()
            for sentinel in sentinels {
                let fields = (try? await sentinel.fields()) ?? [:]
                guard fields["num-slaves"] == "\(servers.count - 1)", fields["num-other-sentinels"] == "\(sentinels.count - 1)",
                    fields["flags"] == "master", fields["port"] == primary.port.map({ "\($0)" })
                else { return false }
            }
            for server in servers where server !== primary {
                // Sentinels cut a server's connections off when they change its role.
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

/// One Sentinel.
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
        watching primary: Int, quorum: Int, _ downAfter: Int, _ certificate: TestCertificate?
    ) async throws -> Sentinel {
        try await LocalPort.withUnused { port in
            try await start(at: port, watching: primary, quorum: quorum, downAfter, certificate)
        }
    }

    private static func start(
        at port: Int, watching primary: Int, quorum: Int, _ downAfter: Int, _ certificate: TestCertificate?
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
                "bind 127.0.0.1", "dir \(folder.path)", "sentinel monitor \(name) 127.0.0.1 \(primary) \(quorum)",
                "sentinel down-after-milliseconds \(name) \(downAfter)", "sentinel failover-timeout \(name) 6000",
                "sentinel parallel-syncs \(name) 5", "sentinel auth-user \(name) \(SentinelFleet.user)",
                "sentinel auth-pass \(name) \(SentinelFleet.password)",
            ]
        // A Sentinel writes what it learns into its own configuration.
        let file = "\(folder.path)/sentinel.conf"
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: file))
        let process = try await ServerProcess.start("redis-server", arguments: [file, "--sentinel"])
        let sentinel = Sentinel(port: port, folder: folder, process: process, certificate: certificate)
        do {
            try await eventually(within: .seconds(20), "a Sentinel answers") {
                guard process.isRunning else { throw RedisServerError(reason: "a Sentinel ended", log: process.log) }
                return (try? await sentinel.ask(["PING"])) != nil
            }
        } catch {
            await sentinel.remove()
            throw error as? RedisServerError ?? RedisServerError(reason: "\(error)", log: process.log)
        }
        return sentinel
    }

    package var log: String { process.log }

    package nonisolated func ask(_ words: [String]) async throws -> RedisReply {
        var configuration = RedisConfiguration(address: .host("127.0.0.1", port: port))
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        if let certificate { configuration.trust(certificate) }
        return try await RedisClient.ask(words, at: configuration)
    }

    /// What it says of the primary.
    package nonisolated func fields() async throws -> [String: String] {
        let words = try await ask(["SENTINEL", "MASTER", SentinelFleet.primaryName]).array?.map { $0.text ?? "" } ?? []
        return Dictionary(
            stride(from: 0, to: words.count - 1, by: 2).map { (words[$0], words[$0 + 1]) }, uniquingKeysWith: { $1 })
    }

    /// The port of the server that it names.
    package nonisolated func primaryPort() async throws -> Int? {
        try await ask(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelFleet.primaryName]).array?.last?.integer
            .flatMap { Int(exactly: $0) }
    }

    /// SIGSTOP: it hears and says nothing.
    package func pause() { process.send(signal: SIGSTOP) }

    /// Continues after `pause`.
    package func resume() { process.send(signal: SIGCONT) }

    /// SIGKILL.
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
    /// The answer to one command, over a connection of its own.
    package nonisolated func ask(_ words: [String]) async throws -> RedisReply {
        try await RedisClient.ask(words, at: configuration)
    }
}

extension RedisClient {
    /// The answer of a server to one command, over a connection of its own.
    package static func ask(_ words: [String], at configuration: RedisConfiguration) async throws -> RedisReply {
        let client = RedisClient(configuration: configuration)
        return try await attempt {
            try await client.connect()
            return try await client.send(AnyCommand(words))
        } finally: {
            await client.close()
        }
    }
}

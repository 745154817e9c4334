import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import NIOSSL
import RedisClient
import ServiceLifecycle
import Testing

@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarSettings
@testable import SidecarTelemetry

/// A real redis-server, a coordinator and an open RESP listener for the duration of a test.
struct RESPTestAPI {
    let port: Int
    let coordinator: Coordinator
    let redis: RedisServer
    /// The keys that the listener accepts.
    let access: AccessControl
    /// A well-behaved client of the listener.
    let client: RedisClient
    /// The metrics that the listener records.
    let metrics: PrometheusRegistry
    /// Begins a graceful shutdown.
    let shutDown: @Sendable () async -> Void

    static let catalog = ServiceDefinition(
        name: "catalog", limits: [LimitDefinition(name: "1m", limit: 10, window: .seconds(60))],
        onLimit: LimitPolicy(action: .trip))

    /// Sends a command, given by its words, to the listener and returns the reply.
    @discardableResult
    func send(_ arguments: String...) async throws -> RedisReply { try await send(arguments) }

    func send(_ arguments: [String]) async throws -> RedisReply {
        try await client.send(AnyCommand(arguments), timeout: .seconds(30))
    }

    /// Returns the first word of the error reply; `nil` if the reply is not an error.
    func errorCode(_ arguments: String...) async throws -> String? {
        guard case .error(let error) = try await client.send(AnyCommand(arguments)) else { return nil }
        return error.message.split(separator: " ").first.map(String.init)
    }

    /// Returns the number of the listener's connections, including that of the well-behaved client.
    func connections() async throws -> Int {
        let report = try await send("INFO").text ?? ""
        let line = report.split(separator: "\r\n").first { $0.hasPrefix("connected_clients:") }
        return line.flatMap { Int($0.dropFirst("connected_clients:".count)) } ?? -1
    }

    /// Sends `bytes` on its own connection, and reads until the listener closes it or the text contains `until`.
    func exchange(_ bytes: String, until: String? = nil) async throws -> String {
        try await RawConnection.exchange(port: port, bytes, until: until)
    }

    /// Returns a client with its own connection.
    static func anotherClient(of api: RESPTestAPI) async throws -> RedisClient {
        var address = RedisConfiguration(address: .host("127.0.0.1", port: api.port))
        address.connectTimeout = .seconds(20)
        address.commandTimeout = .seconds(20)
        let client = RedisClient(configuration: address)
        try await client.connect()
        return client
    }

    /// Returns client settings that accept any certificate and limit TLS to `version`.
    static func clientTLS(upTo version: TLSVersion) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.minimumTLSVersion = .tlsv1
        configuration.maximumTLSVersion = version
        return configuration
    }

    static func with(
        keys: [APIKey] = [], services: [ServiceDefinition] = [catalog], domains: DomainSettings = DomainSettings(),
        unix: String? = nil, tls: TestCertificate? = nil, maximumConnections: Int = 10_000, loginTimeout: Duration = .seconds(10),
        stallTimeout: Duration = .seconds(10),
        redisTimeout: Duration? = nil,
        _ body: (RESPTestAPI) async throws -> Void
    ) async throws {
        try await RedisServer.withServer { redis in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            var configuration = InterlockConfiguration(redis: redis.configuration, services: services, host: "test")
            configuration.domains = domains
            let metrics = PrometheusRegistry()
            if let redisTimeout { configuration.redis.commandTimeout = redisTimeout }
            let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
            let coordinator = Coordinator(configuration: configuration, eventLoop: eventLoop, logger: logger)
            var listen = ListenSettings()
            listen.resp = SocketEndpoint(host: "127.0.0.1", port: 0)
            listen.unix = unix
            listen.maximumConnections = maximumConnections
            let certificate = try tls.map {
                try ListenerCertificate(TLSSettings(certificate: $0.certificatePath, key: $0.keyPath))
            }
            let (ports, bound) = AsyncStream.makeStream(of: Int.self)
            let access = AccessControl(keys: keys)
            let setup = ListenerSetup(
                coordinator: coordinator, access: access, certificate: certificate, listen: listen,
                metrics: metrics, logger: logger, liveView: try await LiveHub.start(for: coordinator).source)
            let api = RESPListener(setup: setup, loginTimeout: loginTimeout, stallTimeout: stallTimeout) { bound.yield($0) }
            let group = ServiceGroup(configuration: .init(services: [coordinator, api], logger: logger))
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                var port = 0
                for await number in ports {
                    port = number
                    break
                }
                await coordinator.waitUntilReady()
                var address = RedisConfiguration(address: .host("127.0.0.1", port: port))
                address.connectTimeout = .seconds(20)
                address.commandTimeout = .seconds(20)
                address.password = keys.first?.secret
                if tls != nil { address.tls = Self.clientTLS(upTo: .tlsv13) }
                let client = RedisClient(configuration: address)
                let result: Result<Void, any Error>
                do {
                    try await client.connect()
                    try await body(
                        RESPTestAPI(
                            port: port, coordinator: coordinator, redis: redis, access: access, client: client, metrics: metrics,
                            shutDown: { await group.triggerGracefulShutdown() }))
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await client.close()
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
            }
        }
    }
}

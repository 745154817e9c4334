import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import ServiceLifecycle
import Testing

@testable import InterlockSidecar
@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarSettings
@testable import SidecarTelemetry

/// A real redis-server, a coordinator and an open HTTP listener for the duration of a test.
struct HTTPTestAPI {
    let client: HTTPTestClient
    let coordinator: Coordinator
    let redis: RedisServer
    /// The keys that the listener accepts.
    let access: AccessControl
    /// Begins a graceful shutdown.
    let shutDown: @Sendable () async -> Void

    static let ops = APIKey(name: "ops", secret: "ops-secret", role: .admin)
    static let web = APIKey(name: "web", secret: "web-secret", role: .use)

    static let catalog = ServiceDefinition(
        name: "catalog", limits: [LimitDefinition(name: "10s", limit: 2, window: .seconds(10))])

    /// Sends a request and expects a status.
    func expect(
        _ status: Int, _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let reply = try await client.send(method, path, body, headers: headers)
        #expect(reply.status == status, "\(method) \(path) \(headers): \(reply.body)", sourceLocation: sourceLocation)
    }

    /// Waits until the coordinator receives the fleet's events, which may be slightly after it is ready.
    func waitUntilSubscribed() async throws {
        let client = RedisClient(configuration: redis.configuration)
        try await client.connect()
        let count = AnyCommand(["PUBSUB", "NUMSUB", coordinator.keys.events])
        try await eventually("the coordinator has subscribed") {
            try await client.send(count) == .array([.bulk(Array(coordinator.keys.events.utf8)), .integer(1)])
        }
        await client.close()
    }

    /// Runs `body` with an open listener.
    /// - Parameter clock: a factory for the clock of `SliceScheduler`, in nanoseconds; `nil` for the system's clock.
    static func with(
        keys: [APIKey] = [], services: [ServiceDefinition] = [catalog], domains: DomainSettings = DomainSettings(),
        hosts: [String] = [], maximumConnections: Int = 10_000, firstRequestTimeout: Duration = .seconds(10),
        idleTimeout: Duration = .seconds(60),
        certificate: ListenerCertificate? = nil, probe: @escaping ProbeReadings.Lookup = { _ in nil },
        clock: (@Sendable () -> () -> Int64)? = nil,
        _ body: (HTTPTestAPI) async throws -> Void
    ) async throws {
        try await RedisServer.withServer { redis in
            var configuration = InterlockConfiguration(redis: redis.configuration, services: services, host: "test")
            configuration.redis.commandTimeout = .seconds(5)
            configuration.domains = domains
            configuration.redis.reconnectDelay = .milliseconds(5) ... .milliseconds(50)
            var listen = ListenSettings()
            listen.http = SocketEndpoint(host: "127.0.0.1", port: 0)
            listen.hosts = hosts
            listen.maximumConnections = maximumConnections
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let coordinator = Coordinator(
                configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
            let (ports, bound) = AsyncStream.makeStream(of: Int.self)
            let access = AccessControl(keys: keys)
            let loop = coordinator.eventLoop
            let turns = try await loop.submit {
                clock.map { NIOLoopBound(SliceScheduler(eventLoop: loop, clock: $0()), eventLoop: loop) }
            }.get()
            let live = try await LiveHub.start(for: coordinator, probe: probe)
            let setup = ListenerSetup(
                coordinator: coordinator, access: access, certificate: certificate, listen: listen,
                metrics: PrometheusRegistry(), logger: logger, probe: probe,
                liveView: live.source, scheduler: turns)
            let api = try await loop.submit {
                HTTPService(setup, live: live.value, firstRequestTimeout: firstRequestTimeout, idleTimeout: idleTimeout) {
                    bound.yield($0)
                }
            }.get()
            let group = ServiceGroup(configuration: .init(services: [coordinator, api], logger: logger))
            var stage = "opened"
            // A test that exceeds its time limit prints the stage that it was in.
            defer { if Task.isCancelled { print("the listener was being \(stage)") } }
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask {
                    // If the listener cannot open, finishing the stream ends the wait for its port.
                    defer { bound.finish() }
                    try await group.run()
                }
                var port: Int?
                for await number in ports {
                    port = number
                    break
                }
                stage = "made ready"
                try await eventually("the coordinator is ready") { await coordinator.isReady }
                let test = HTTPTestAPI(
                    client: HTTPTestClient(port: port ?? 0), coordinator: coordinator, redis: redis,
                    access: access, shutDown: { await group.triggerGracefulShutdown() })
                stage = "used"
                do {
                    try await body(test)
                } catch {
                    await group.triggerGracefulShutdown()
                    throw error
                }
                stage = "closed"
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
            }
        }
    }
}

import Interlock
import InterlockClient
import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import RedisClient
import ServiceLifecycle

@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarSettings
@testable import SidecarTelemetry

/// A real redis-server, a coordinator and an open RESP listener in this process, for the duration of a test.
struct TestSidecar {
    /// The configuration of a client of the listener, with long timeouts.
    let configuration: SidecarClientConfiguration
    /// The coordinator of the listener.
    let coordinator: Coordinator

    static let catalog = ServiceDefinition(
        name: "catalog", limits: [LimitDefinition(name: "1m", limit: 10, window: .seconds(60))])

    /// Returns the configuration of a client whose timeouts suit a busy machine.
    static func lenientConfiguration(port: Int, apiKey: String? = nil) -> SidecarClientConfiguration {
        var configuration = SidecarClientConfiguration(address: .tcp(host: "127.0.0.1", port: port), apiKey: apiKey)
        configuration.connectTimeout = .seconds(20)
        configuration.responseTimeout = .seconds(20)
        return configuration
    }

    /// Runs `body` with a sidecar.
    /// - Parameter keys: the API keys. The configuration contains the first one.
    static func with(
        keys: [APIKey] = [], services: [ServiceDefinition] = [catalog], prefix: String = KeySpace.defaultPrefix,
        _ body: (TestSidecar) async throws -> Void
    ) async throws {
        try await RedisServer.withServer { redis in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(
                    redis: redis.configuration, prefix: prefix, services: services, host: "test"),
                eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
            var listen = ListenSettings()
            listen.resp = SocketEndpoint(host: "127.0.0.1", port: 0)
            let (ports, bound) = AsyncStream.makeStream(of: Int.self)
            let setup = ListenerSetup(
                coordinator: coordinator, access: AccessControl(keys: keys), certificate: nil, listen: listen,
                metrics: PrometheusRegistry(), logger: logger, liveView: try await LiveHub.start(for: coordinator).source)
            let api = RESPListener(setup: setup) { bound.yield($0) }
            let group = ServiceGroup(configuration: .init(services: [coordinator, api], logger: logger))
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                var port = 0
                for await number in ports {
                    port = number
                    break
                }
                await coordinator.waitUntilReady()
                let result: Result<Void, any Error>
                do {
                    try await body(
                        TestSidecar(
                            configuration: lenientConfiguration(port: port, apiKey: keys.first?.secret), coordinator: coordinator)
                    )
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
            }
        }
    }

    /// Runs `body` with a client of a sidecar.
    static func withClient(
        keys: [APIKey] = [], services: [ServiceDefinition] = [catalog], prefix: String = KeySpace.defaultPrefix,
        _ body: (SidecarClient) async throws -> Void
    ) async throws {
        try await with(keys: keys, services: services, prefix: prefix) { sidecar in
            try await SidecarClient.withClient(sidecar.configuration, body)
        }
    }
}

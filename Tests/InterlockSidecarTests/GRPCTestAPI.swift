import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient
import ServiceLifecycle

@testable import SidecarConsole
@testable import SidecarListeners
@testable import SidecarSettings
@testable import SidecarTelemetry

/// A real redis-server, a coordinator and an open gRPC listener for the duration of a test.
struct GRPCTestAPI {
    let port: Int
    let coordinator: Coordinator
    /// The keys that the listener accepts.
    let access: AccessControl

    static func with(
        keys: [APIKey] = [], certificate: ListenerCertificate? = nil, maximumConnections: Int = 10_000,
        firstRequestTimeout: Duration = .seconds(10), _ body: (GRPCTestAPI) async throws -> Void
    ) async throws {
        try await RedisServer.withServer { redis in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(redis: redis.configuration, host: "test"),
                eventLoop: MultiThreadedEventLoopGroup.singleton.next(), logger: logger)
            let access = AccessControl(keys: keys)
            let (ports, bound) = AsyncStream.makeStream(of: Int.self)
            var listen = ListenSettings()
            listen.maximumConnections = maximumConnections
            let setup = ListenerSetup(
                coordinator: coordinator, access: access, certificate: certificate, listen: listen,
                metrics: PrometheusRegistry(), logger: logger, liveView: try await LiveHub.start(for: coordinator).source)
            let api = GRPCListener(
                setup: setup, endpoint: SocketEndpoint(host: "127.0.0.1", port: 0), firstRequestTimeout: firstRequestTimeout
            ) { bound.yield($0) }
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
                    try await body(GRPCTestAPI(port: port, coordinator: coordinator, access: access))
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

    /// Returns the frames of a call with one message, authenticated with `key`.
    static func call(
        _ path: String, _ message: [UInt8] = [], key: String? = nil, stream: UInt32, ends: Bool = true
    ) -> [HTTP2TestClient.Frame] {
        var fields = [("content-type", "application/grpc"), ("te", "trailers")]
        if let key { fields.append(("authorization", "Bearer \(key)")) }
        var payload = ByteBuffer(bytes: [0])
        payload.writeInteger(UInt32(message.count))
        payload.writeBytes(message)
        return [
            HTTP2TestClient.head("POST", path, fields, stream: stream, ends: false),
            HTTP2TestClient.Frame(
                kind: .data, flags: ends ? HTTP2TestClient.Frame.endStream : 0, stream: stream, payload: payload),
        ]
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import Testing

@testable import SidecarListeners
@testable import SidecarSettings

/// Removing an API key, as a reload does, ends its callers' waits, streams, tunnels and connections.
@Suite("Revoking an API key", .timeLimit(.minutes(2)))
struct RevokedKeyTests {
    private static let keys = [HTTPTestAPI.ops, HTTPTestAPI.web]
    private static let web = ["X-Api-Key": HTTPTestAPI.web.secret]

    private static func remove(_ access: AccessControl) { access.replace(keys: [HTTPTestAPI.ops]) }

    /// Sends a request that stays open, removes its key once `isOpen` returns `true`, and returns the response.
    private static func responseAfterRevocation(
        _ api: HTTPTestAPI, _ method: String, _ path: String, _ body: String? = nil, fields: [String: String] = [:],
        whenOpen isOpen: @escaping @Sendable () async throws -> Bool = { true },
        then after: @escaping @Sendable () async throws -> Void = {}
    ) async throws -> String {
        let request = HTTPTestClient.request(
            method, path, body, headers: web.merging(fields) { $1 }, port: api.client.port, closing: false)
        let (client, access) = (api.client, api.access)
        return try await withThrowingTaskGroup(of: String?.self) { group in
            group.addTask { try await client.exchange(request) }
            group.addTask {
                try await eventually("the request is pending") { try await isOpen() }
                remove(access)
                try await after()
                return nil
            }
            var response = ""
            for try await text in group { response = text ?? response }
            return response
        }
    }

    @Test("A revoked key ends a wait for a lock with 401 and without a grant")
    func lockWait() async throws {
        try await HTTPTestAPI.with(keys: Self.keys, idleTimeout: .seconds(5)) { api in
            let coordinator = api.coordinator
            let name = try ResourceName("orders")
            let heldLease = try #require(
                try await coordinator.acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)))
            let response = try await Self.responseAfterRevocation(
                api, "POST", "/v1/locks/orders", #"{"ttl_ms":30000,"wait_ms":50000}"#,
                whenOpen: { await coordinator.status.lockWaiterCount == 1 },
                then: { _ = try await coordinator.releaseLock(name, token: heldLease.token) })
            #expect(response.hasPrefix("HTTP/1.1 401 "), "\(response)")
            #expect(response.lowercased().contains("connection: close"))
            #expect(await coordinator.status.lockWaiterCount == 0)
            #expect(try await coordinator.inspectLock(name)?.label == nil)
        }
    }

    @Test(
        "A revoked key ends a wait for a limit with 401, for a take and for a permit",
        arguments: ["limits/catalog/take", "services/catalog/permits"])
    func limitWait(path: String) async throws {
        let service = ServiceDefinition(
            name: "catalog", limits: [LimitDefinition(name: "20s", limit: 1, window: .seconds(20))])
        try await HTTPTestAPI.with(keys: Self.keys, services: [service], idleTimeout: .seconds(5)) { api in
            let coordinator = api.coordinator
            try await api.expect(200, "POST", "/v1/limits/catalog/take", "{}", headers: Self.web)
            let response = try await Self.responseAfterRevocation(
                api, "POST", "/v1/\(path)", #"{"wait_ms":50000}"#,
                whenOpen: {
                    try await coordinator.eventLoop.submit {
                        coordinator.loopBound().activity(ofService: "catalog")?.waitingCount == 1
                    }.get()
                })
            #expect(response.hasPrefix("HTTP/1.1 401 "), "\(response)")
        }
    }

    @Test("A revoked key closes a keep-alive connection")
    func keptConnection() async throws {
        try await HTTPTestAPI.with(keys: Self.keys, idleTimeout: .seconds(20)) { api in
            let access = api.access
            let start = ContinuousClock.now
            let request = HTTPTestClient.request(
                "GET", "/v1/services", nil, headers: Self.web, port: api.client.port, closing: false)
            let response = try await api.client.exchange(request) { received in
                if received.contains("\r\n\r\n") { Self.remove(access) }
            }
            #expect(response.hasPrefix("HTTP/1.1 200 "))
            #expect(ContinuousClock.now - start < .seconds(10))
        }
    }

    @Test("A revoked key closes both ends of a tunnel")
    func revokedKeyClosesBothEndsOfTunnel() async throws {
        let (disconnections, disconnected) = AsyncStream.makeStream(of: Void.self)
        let upstream: TestUpstream.Handler = { call in
            defer { disconnected.yield() }
            try await call.send(
                """
                HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nwelcome
                """)
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(keys: Self.keys, upstream: upstream) { proxy in
            let access = proxy.api.access
            let request = """
                GET /proxy/shop/room HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Api-Key: web-secret\r\n\r\n
                """
            let response = try await RawConnection.exchange(port: proxy.client.port, ByteBuffer(string: request)) { received in
                if received.hasSuffix("welcome") { Self.remove(access) }
                return false
            }
            #expect(response.hasPrefix("HTTP/1.1 101 "))
            for await _ in disconnections { break }
        }
    }

    @Test("A revoked key truncates a proxied response and closes its upstream connection")
    func proxiedStream() async throws {
        let (disconnections, disconnected) = AsyncStream.makeStream(of: Void.self)
        let upstream: TestUpstream.Handler = { call in
            defer { disconnected.yield() }
            try await call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(keys: Self.keys, upstream: upstream) { proxy in
            let access = proxy.api.access
            let request = "GET /proxy/shop/events HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: web-secret\r\n\r\n"
            let response = try await RawConnection.exchange(port: proxy.client.port, ByteBuffer(string: request)) { received in
                if received.contains("data: 1") { Self.remove(access) }
                return false
            }
            #expect(response.hasPrefix("HTTP/1.1 200 ") && !response.hasSuffix("\r\n0\r\n\r\n"))
            for await _ in disconnections { break }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A revoked key ends a linked lease's stream and renewal, and keeps its lock held")
    func linkedLease() async throws {
        try await HTTPTestAPI.with(keys: Self.keys) { api in
            let coordinator = api.coordinator
            let access = api.access
            let name = try ResourceName("orders")
            let request = HTTPTestClient.request(
                "POST", "/v1/locks/orders", #"{"ttl_ms":3000,"linked":true}"#, headers: Self.web, port: api.client.port,
                closing: false)
            _ = try await api.client.exchange(request) { received in
                if HTTPTestClient.event("lease", in: received) != nil { Self.remove(access) }
            }
            #expect(try await coordinator.inspectLock(name)?.holders == 1)
            try await eventually("the lease has expired") { try await coordinator.inspectLock(name)?.label == nil }
        }
    }

    @Test("A revoked key ends event streams and console streams", arguments: ["/v1/events", "/v1/live"])
    func revokedKeyEndsEventStreamsAndConsoleStreams(path: String) async throws {
        try await HTTPTestAPI.with(keys: Self.keys) { api in
            let access = api.access
            let request = HTTPTestClient.request(
                "GET", path, nil, headers: Self.web.merging(["Accept": "text/event-stream"]) { $1 }, port: api.client.port,
                closing: false)
            let start = ContinuousClock.now
            let response = try await api.client.exchange(request) { received in
                if received.contains("\r\n\r\n") { Self.remove(access) }
            }
            #expect(response.hasPrefix("HTTP/1.1 200 "))
            #expect(ContinuousClock.now - start < .seconds(10))
        }
    }

    @Test("A revoked key ends a stream that its client does not read")
    func unreadStream() async throws {
        try await HTTPTestAPI.with(keys: Self.keys) { api in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4096)
                .connect(host: "127.0.0.1", port: api.client.port).get()
            try await channel.writeAndFlush(
                ByteBuffer(
                    string: """
                        POST /v1/locks/orders HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: web-secret\r\nContent-Length: 31\r\n\r\n\
                        {"ttl_ms":3000,  "linked":true}
                        """))
            let coordinator = api.coordinator
            let name = try ResourceName("orders")
            try await eventually("the lease is granted") { try await coordinator.inspectLock(name)?.holders == 1 }
            Self.remove(api.access)
            try await eventually("the lease has expired") { try await coordinator.inspectLock(name)?.label == nil }
            try? await channel.close()
        }
    }

    @Test("A revoked key ends HTTP/2 streams with 401, and the connection with GOAWAY")
    func revokedKeyEndsHTTP2StreamsWith401() async throws {
        try await HTTPTestAPI.with(keys: Self.keys) { api in
            let coordinator = api.coordinator
            let name = try ResourceName("orders")
            let heldLease = try #require(
                try await coordinator.acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)))
            try await HTTP2TestClient.with(port: api.client.port) { client in
                try await client.send(
                    HTTP2TestClient.head(
                        "POST", "/v1/locks/orders", [("x-api-key", "web-secret")], stream: 1, ends: false),
                    HTTP2TestClient.data(#"{"ttl_ms":30000,"wait_ms":20000}"#, stream: 1, ends: true))
                try await eventually("the call waits") { await coordinator.status.lockWaiterCount == 1 }
                Self.remove(api.access)
                _ = try await coordinator.releaseLock(name, token: heldLease.token)
                #expect(try await client.answer(1).status == "401")
                #expect(try await client.end() == 0)
            }
            #expect(try await coordinator.inspectLock(name)?.label == nil)
        }
    }

    @Test("A revoked key ends gRPC calls with UNAUTHENTICATED, and the connection with GOAWAY")
    func revokedKeyEndsGRPCCallsWithUnauthenticated() async throws {
        try await GRPCTestAPI.with(keys: Self.keys) { api in
            try await HTTP2TestClient.with(port: api.port) { client in
                let watch = GRPCTestAPI.call("/grpc.health.v1.Health/Watch", key: "web-secret", stream: 5)
                let quotas = GRPCTestAPI.call(
                    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas", [0x0A, 1, 0x64],
                    key: "web-secret", stream: 1, ends: false)
                let logs = GRPCTestAPI.call(
                    "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs", key: "web-secret", stream: 3, ends: false)
                // The last call is answered, so all calls have begun.
                try await client.send(quotas + logs + watch)
                _ = try await client.answer(5) { !$0.body.isEmpty }
                let start = ContinuousClock.now
                Self.remove(api.access)
                for stream: UInt32 in [1, 3, 5] {
                    let response = try await client.answer(stream)
                    let fields = response.trailers + response.fields
                    #expect(fields.contains { $0.name == "grpc-status" && $0.value == "16" }, "\(stream): \(response)")
                }
                #expect(try await client.end() == 0)
                #expect(ContinuousClock.now - start < .seconds(10))
            }
        }
    }

    @Test("A revoked key ends a wait over RESP without a grant")
    func revokedKeyEndsWaitOverRESPWithoutGrant() async throws {
        try await RESPTestAPI.with(keys: Self.keys) { api in
            let coordinator = api.coordinator
            let access = api.access
            let name = try ResourceName("orders")
            let heldLease = try #require(
                try await coordinator.acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)))
            async let replies = api.exchange("AUTH web-secret\r\nLOCK.ACQUIRE orders 30000 WAIT 50000\r\n")
            try await eventually("the call waits") { await coordinator.status.lockWaiterCount == 1 }
            Self.remove(access)
            try await eventually("the wait has ended") { await coordinator.status.lockWaiterCount == 0 }
            _ = try await coordinator.releaseLock(name, token: heldLease.token)
            #expect(try await replies == "+OK\r\n")
            #expect(try await coordinator.inspectLock(name)?.label == nil)
        }
    }

    @Test("A revoked key ends the wait of a RESP client that does not read")
    func unreadRESP() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = "\(folder.path)/resp.sock"
        try await RESPTestAPI.with(keys: Self.keys, unix: path, stallTimeout: .seconds(90)) { api in
            let coordinator = api.coordinator
            let name = try ResourceName("orders")
            let heldLease = try #require(
                try await coordinator.acquireLock(LockRequest(name: name, ttlMilliseconds: 600_000)))
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .connect(unixDomainSocketPath: path).get()
            let commands = ["AUTH web-secret", "HELLO 3", "SUBSCRIBE interlock:events", "LOCK.ACQUIRE orders 30000 WAIT 80000"]
            try await channel.writeAndFlush(ByteBuffer(string: commands.map { "\($0)\r\n" }.joined()))
            try await eventually("the call waits") { await coordinator.status.lockWaiterCount == 1 }
            // The megabyte of events exceeds the socket buffers, but not what the listener may buffer.
            let events = coordinator.events.locks.subscribe()
            let others = (0..<2500).map { "\(String(repeating: "x", count: 200))-\($0)" } + ["last"]
            let breaks = others.map { "LOCK.ACQUIRE \($0) 60000\r\nLOCK.BREAK \($0)\r\n" }.joined()
            _ = try await api.exchange("AUTH ops-secret\r\n\(breaks)QUIT\r\n")
            _ = await events.first { $0.lock == "last" }
            #expect(await coordinator.status.lockWaiterCount == 1)
            Self.remove(api.access)
            try await eventually(within: .seconds(10), "the wait has ended") {
                await coordinator.status.lockWaiterCount == 0
            }
            _ = try await coordinator.releaseLock(name, token: heldLease.token)
            #expect(try await coordinator.inspectLock(name)?.label == nil)
            try? await channel.close()
        }
    }

    @Test("A revoked key does not affect callers with other keys")
    func revokedKeyDoesNotAffectCallersWithOtherKeys() async throws {
        try await HTTPTestAPI.with(keys: Self.keys) { api in
            let coordinator = api.coordinator
            let access = api.access
            let name = try ResourceName("orders")
            let heldLease = try #require(
                try await coordinator.acquireLock(LockRequest(name: name, ttlMilliseconds: 60_000)))
            async let response = api.client.send(
                "POST", "/v1/locks/orders", #"{"ttl_ms":30000,"wait_ms":50000}"#, headers: ["X-Api-Key": "ops-secret"])
            try await eventually("the call waits") { await coordinator.status.lockWaiterCount == 1 }
            Self.remove(access)
            _ = try await coordinator.releaseLock(name, token: heldLease.token)
            #expect(try await response.status == 201)
        }
    }
}

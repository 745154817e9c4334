import InterlockProcesses
import SidecarListeners
import SidecarSettings
import NIOCore
import NIOPosix
import Testing

@Suite("HTTP API: connections", .timeLimit(.minutes(1)))
struct HTTPConnectionTests {
    /// Reports when the first bytes arrive.
    private final class FirstBytes: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let arrival: EventLoopPromise<Void>

        init(_ arrival: EventLoopPromise<Void>) {
            self.arrival = arrival
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { arrival.succeed() }

        func channelInactive(context: ChannelHandlerContext) { arrival.fail(ChannelError.ioOnClosedChannel) }
    }

    /// Returns an open connection that has received a response and therefore occupies a slot.
    private static func occupySlot(at api: HTTPTestAPI) async throws -> any Channel {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let arrival = loop.makePromise(of: Void.self)
        let channel = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(FirstBytes(arrival)) }
            }
            .connect(host: "127.0.0.1", port: api.client.port).get()
        try await channel.writeAndFlush(ByteBuffer(string: "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        try await arrival.futureResult.get()
        return channel
    }

    @Test("A connection that sends no request is closed", arguments: ["", "GET /healthz HTTP/1.1\r\nHost: local"])
    func noRequest(bytes: String) async throws {
        try await HTTPTestAPI.with(firstRequestTimeout: .milliseconds(100)) { api in
            // The call returns when the listener closes the connection.
            let response = try await RawConnection.exchange(port: api.client.port, bytes)
            #expect(response.isEmpty)
            try await api.expect(200, "GET", "/healthz")
        }
    }

    @Test(
        "A connection that stalls after its first request is closed, and others are answered",
        arguments: [
            "", "GET /healthz HTTP/1.1\r\nHost: local",
            "POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        ])
    func noProgress(bytes: String) async throws {
        try await HTTPTestAPI.with(idleTimeout: .milliseconds(500)) { api in
            // The call returns when the listener closes the connection.
            let response = try await RawConnection.exchange(
                port: api.client.port, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes)
            #expect(response.hasPrefix("HTTP/1.1 200 "))
            try await api.expect(200, "GET", "/healthz")
        }
    }

    @Test(
        "A request with too many or too long fields is refused, and others are answered",
        arguments: [(101, 10), (1, 8 * 1024 + 1), (10, 4 * 1024)])
    func fields(count: Int, length: Int) async throws {
        try await HTTPTestAPI.with { api in
            let fields = (0..<count).map { "X-\($0): " + String(repeating: "x", count: length) + "\r\n" }.joined()
            let response = try await RawConnection.exchange(
                port: api.client.port, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
            #expect(response.isEmpty || response.hasPrefix("HTTP/1.1 431 "), "\(response)")
            try await api.expect(200, "GET", "/healthz")
        }
    }

    @Test(
        "A request to upgrade the protocol is answered without an upgrade, and the connection closes",
        arguments: [
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x",
            "connection: UPGRADE\r\nupgrade: websocket",
        ])
    func upgradeRequestIsAnsweredWithoutUpgrade(fields: String) async throws {
        try await HTTPTestAPI.with { api in
            let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
            let response = try await RawConnection.exchange(
                port: api.client.port, "\(request)\(fields)\r\n\r\n\(request)\r\n\(String(repeating: "x", count: 100_000))")
            #expect(response.ranges(of: "HTTP/1.1 200 ").count == 1, "\(response)")
            #expect(response.lowercased().contains("connection: close"))
        }
    }

    @Test("An unfinished TLS handshake is closed")
    func halfHandshake() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        let settings = TLSSettings(certificate: certificate.certificatePath, key: certificate.keyPath)
        try await HTTPTestAPI.with(firstRequestTimeout: .milliseconds(100), certificate: try ListenerCertificate(settings)) {
            api in
            let response = try await RawConnection.exchange(port: api.client.port, "\u{16}\u{03}\u{01}\u{02}")
            #expect(response.isEmpty)
        }
    }

    @Test("Connections beyond the limit can read only the sidecar's health")
    func connectionsBeyondLimitCanReadOnlySidecarHealth() async throws {
        try await HTTPTestAPI.with(maximumConnections: 2) { api in
            var channels: [any Channel] = []
            for _ in 0..<2 { channels.append(try await Self.occupySlot(at: api)) }
            func get(_ path: String) async throws -> String {
                // The call returns when the listener closes the connection.
                try await RawConnection.exchange(port: api.client.port, "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
            for path in ["/healthz", "/readyz", "/metrics"] {
                let response = try await get(path)
                #expect(response.hasPrefix("HTTP/1.1 200 "), "\(path)")
                #expect(response.lowercased().contains("connection: close"))
            }
            let refusal = try await get("/v1/services")
            #expect(refusal.hasPrefix("HTTP/1.1 503 "))
            #expect(refusal.contains("listen.max_connections"))
            // Silent clients keep the reserve slots for at most a second.
            let silent = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<16 { group.addTask { try await RawConnection.exchange(port: api.client.port, "GET /") } }
                let response = try await get("/healthz")
                #expect(response.hasPrefix("HTTP/1.1 200 "))
                return try await group.reduce("", +)
            }
            #expect(silent.isEmpty)
            let areOpen = channels.allSatisfy(\.isActive)
            #expect(areOpen)
            for channel in channels { try await channel.close() }
            try await eventually("a slot is free") {
                try await get("/v1/services HTTP/1.1\r\nConnection: close\r\nX:").hasPrefix("HTTP/1.1 200 ")
            }
        }
    }

    @Test(
        "HTTP/1.0 is answered without chunks, and its connection is closed", arguments: ["/healthz", "/metrics", "/nowhere"])
    func http10IsAnsweredWithoutChunks(path: String) async throws {
        try await HTTPTestAPI.with { api in
            // The call returns when the listener closes the connection.
            let response = try await RawConnection.exchange(
                port: api.client.port, "GET \(path) HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.0 "))
            #expect(response.lowercased().contains("\r\nconnection: close\r\n"))
            #expect(!response.lowercased().contains("transfer-encoding"))
        }
    }

    @Test("An HTTP/1.0 client receives a refusal that is sent before its body is read")
    func http10Body() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            let head = "POST /v1/locks/a HTTP/1.0\r\nHost: localhost\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n"
            let response = try await RawConnection.exchange(
                port: api.client.port, head + String(repeating: "x", count: 300_000), until: "unauthenticated")
            #expect(response.hasPrefix("HTTP/1.0 401 "))
        }
    }

    @Test("A response of unknown length to HTTP/1.0 is sent without chunks")
    func http10Stream() async throws {
        try await HTTPTestAPI.with { api in
            let response = try await RawConnection.exchange(
                port: api.client.port, "GET /v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n", until: "from now on")
            #expect(!response.lowercased().contains("transfer-encoding"))
            #expect(response.contains("\r\n\r\n: the events"))
        }
    }
}

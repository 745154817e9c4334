import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@Suite("Proxy: WebSockets", .timeLimit(.minutes(1)))
struct WebSocketTests {
    private static let request = """
        GET /proxy/shop/room HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n
        """
    private static let change = """
        HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n
        """

    /// Returns an upstream that switches protocols, sends `first` immediately after, and echoes what it receives.
    private static func echo(_ first: String = "") -> TestUpstream.Handler {
        { call in
            try await call.send(change + first)
            while let nextBytes = try await call.nextBytes() { try await call.send(nextBytes) }
            throw TestUpstream.Close()
        }
    }

    @Test("An upgrade is forwarded, and bytes sent right after either head are not lost")
    func upgradeIsForwarded() async throws {
        try await ProxyTestAPI.with(upstream: Self.echo("welcome")) { proxy in
            let bytes = ByteBuffer(string: Self.request + "\u{1}hello")
            let response = try await RawConnection.exchange(port: proxy.client.port, bytes) { $0.hasSuffix("hello") }
            #expect(response.hasPrefix("HTTP/1.1 101 Switching Protocols\r\n"))
            for field in ["Connection: Upgrade", "Upgrade: websocket", "Interlock-Service: shop", "Sec-WebSocket-Accept: s3pPL"] {
                #expect(response.ranges(of: "\r\n" + field).count == 1, "\(field) in \(response)")
            }
            #expect(!response.contains("ransfer-") && !response.contains("ontent-Length"))
            #expect(response.hasSuffix("\r\n\r\nwelcome\u{1}hello"))
            let head = try #require(proxy.upstream.received.first)
            #expect(head.hasPrefix("GET /v1/room HTTP/1.1\r\n"))
            for field in ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhl"] {
                #expect(head.ranges(of: "\r\n" + field).count == 1, "\(field) in \(head)")
            }
            // The permit covered only the switch of protocols.
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("Megabytes pass in both directions without loss")
    func megabytesPassInBothDirectionsWithoutLoss() async throws {
        let message = String(repeating: "0123456789abcdef", count: 1 << 18)
        try await ProxyTestAPI.with(upstream: { call in
            try await call.send(Self.change)
            var receivedCount = 0
            while receivedCount < message.utf8.count, let nextBytes = try await call.nextBytes() {
                receivedCount += nextBytes.readableBytes
            }
            try await call.send(message + "\(receivedCount)")
            throw TestUpstream.Close()
        }) { proxy in
            let head = Self.request.replacing("\r\n\r\n", with: "\r\n\r\n" + message)
            let response = try await RawConnection.exchange(port: proxy.client.port, head)
            #expect(response.hasSuffix("\r\n\r\n" + message + "\(message.utf8.count)"))
        }
    }

    @Test("If either end disconnects, the other's connection is closed")
    func ends() async throws {
        let (disconnections, disconnected) = AsyncStream.makeStream(of: Void.self)
        try await ProxyTestAPI.with(upstream: { call in
            defer { disconnected.yield() }
            try await Self.echo()(&call)
        }) { proxy in
            _ = try await RawConnection.exchange(port: proxy.client.port, Self.request, until: "\r\n\r\n")
            for await _ in disconnections { break }
        }
        try await ProxyTestAPI.with(upstream: { call in
            try await call.send("HTTP/1.1 103 Early Hints\r\n\r\n" + Self.change + "bye")
            throw TestUpstream.Close()
        }) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, Self.request)
            #expect(response.hasSuffix("\r\n\r\nbye"))
        }
    }

    @Test("A shutdown closes the sidecar's tunnels")
    func shutdownClosesSidecarTunnels() async throws {
        try await ProxyTestAPI.with(upstream: Self.echo()) { proxy in
            let shutDown = proxy.api.shutDown
            let response = try await RawConnection.exchange(port: proxy.client.port, ByteBuffer(string: Self.request)) {
                received in
                if received.contains("\r\n\r\n") { Task { await shutDown() } }
                return false
            }
            #expect(response.hasPrefix("HTTP/1.1 101 "))
        }
    }

    @Test("An upstream that declines the upgrade is answered as usual, and the connection ends")
    func declinedUpgradeIsAnsweredAsUsual() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("426 Upgrade Required", [], "no") }) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, Self.request)
            #expect(response.hasPrefix("HTTP/1.1 426 ") && response.contains("Connection: close") && response.hasSuffix("no"))
        }
    }

    @Test(
        "An unsolicited or different upgrade is rejected",
        arguments: [
            (Self.request, Self.change.replacing("websocket", with: "h2c")),
            (Self.request, Self.change.replacing("Upgrade: websocket\r\n", with: "")),
            ("GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\r\n", Self.change),
            (Self.request.replacing("Upgrade: websocket", with: "Upgrade: h2c"), Self.change),
            (Self.request.replacing("keep-alive, Upgrade", with: "keep-alive"), Self.change),
            (Self.request.replacing("GET", with: "POST"), Self.change),
            (Self.request.replacing("HTTP/1.1", with: "HTTP/1.0"), Self.change),
            (Self.request.replacing("Upgrade: websocket", with: "Upgrade: websocket\r\nContent-Length: 2") + "{}", Self.change),
        ])
    func unsolicitedOrDifferentUpgradeIsRejected(request: String, upstreamResponse: String) async throws {
        try await ProxyTestAPI.with(
            configure: { $0.upstream?.retries.attempts = 0 },
            upstream: { call in
                try await call.send(upstreamResponse)
                while try await call.nextBytes() != nil {}
            }
        ) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, request, until: "upstream_failed")
            #expect(response.contains(" 502 ") && !response.contains(" 101 "), "\(response)")
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A page of another origin cannot open a WebSocket")
    func otherOrigin() async throws {
        try await ProxyTestAPI.with(upstream: Self.echo()) { proxy in
            let otherOrigin = Self.request.replacing("\r\n\r\n", with: "\r\nOrigin: https://elsewhere.example\r\n\r\n")
            let response = try await RawConnection.exchange(port: proxy.client.port, otherOrigin)
            #expect(response.hasPrefix("HTTP/1.1 403 "))
            #expect(proxy.upstream.received == [])
        }
    }

    @Test("A service with http2 refuses a WebSocket with an explanation")
    func http2ServiceRefusesWebSocket() async throws {
        try await ProxyTestAPI.with(configure: { $0.upstream?.speaksHTTP2 = true }, upstream: Self.echo()) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, Self.request)
            #expect(response.hasPrefix("HTTP/1.1 400 ") && response.contains("http2"))
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@Suite("HTTP API: HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2Tests {
    private typealias Client = HTTP2TestClient

    /// Error codes of RFC 9113, section 7.
    private enum Code {
        static let none: UInt32 = 0
        static let protocolError: UInt32 = 1
        static let flowControl: UInt32 = 3
        static let enhanceYourCalm: UInt32 = 11
    }

    @Test("Requests on one connection are answered on their streams, and a slow one does not delay others")
    func requestsAreAnsweredOnTheirStreams() async throws {
        try await HTTPTestAPI.with { api in
            try await Client.with(port: api.client.port) { client in
                let wait = #"{"ttl_ms":30000,"wait_ms":20000}"#
                try await client.send(
                    Client.head("POST", "/v1/locks/a", stream: 1, ends: false), Client.data(wait, stream: 1, ends: true))
                let first = try await client.answer(1)
                #expect(first.status == "201" && first.value("content-type") == "application/json")
                #expect(first.value("connection") == nil && first.value("content-length") == "\(first.body.utf8.count)")
                try await client.send(
                    Client.head("POST", "/v1/locks/a", stream: 3, ends: false), Client.data(wait, stream: 3, ends: true),
                    Client.head("GET", "/healthz", stream: 5), Client.head("HEAD", "/healthz", stream: 7),
                    Client.head("GET", "/nowhere", stream: 9))
                #expect(try await client.answer(5).status == "200")
                let head = try await client.answer(7)
                #expect(head.status == "200" && head.body.isEmpty && head.reset == nil)
                #expect(try await client.answer(9).status == "404")
                let token = try #require(first.body.firstMatch(of: /"token":"([^"]+)"/)?.output.1)
                try await client.send(Client.head("DELETE", "/v1/locks/a", [("lease-token", String(token))], stream: 11))
                #expect(try await client.answer(11).status == "204")
                #expect(try await client.answer(3).status == "201")
            }
        }
    }

    @Test("Resetting a stream cancels its wait and its linked leases, and the connection stays open")
    func streamResetCancelsWaitAndLinkedLeases() async throws {
        try await HTTPTestAPI.with { api in
            try await Client.with(port: api.client.port) { client in
                try await client.send(
                    Client.head("POST", "/v1/locks/a", stream: 1, ends: false),
                    Client.data(#"{"ttl_ms":30000,"linked":true}"#, stream: 1, ends: true))
                _ = try await client.answer(1) { $0.body.contains("granted") || $0.body.contains("token") }
                try await client.send(
                    Client.head("POST", "/v1/locks/a", stream: 3, ends: false),
                    Client.data(#"{"ttl_ms":30000,"wait_ms":20000}"#, stream: 3, ends: true),
                    Client.reset(1))
                #expect(try await client.answer(3).status == "201")
                try await client.send(
                    Client.head("POST", "/v1/locks/a", stream: 5, ends: false),
                    Client.data(#"{"ttl_ms":30000,"wait_ms":20000}"#, stream: 5, ends: true), Client.reset(5))
                let coordinator = api.coordinator
                try await eventually("no call waits") { await coordinator.status.lockWaiterCount == 0 }
                try await client.send(Client.head("GET", "/healthz", stream: 7))
                #expect(try await client.answer(7).status == "200")
            }
        }
    }

    @Test(
        "A malformed request is refused, reaches no upstream and harms no other request",
        arguments: [
            [("X-Upper", "a")], [("connection", "close")], [("transfer-encoding", "chunked")], [("te", "gzip")],
            [("x", "a\r\nx-injected: b")], [("x", "a\nb")], [("x", "a\u{0}b")], [("", "x")], [("x y", "a")], [(":path", "/b")],
            [("x", "a"), (":late", "b")], [("content-length", "5")], [("content-length", "x")],
            [("content-length", "+0")], [("content-length", "-0")], [("content-length", "0"), ("content-length", "0")],
            [("upgrade", "websocket")],
            [("x", String(repeating: "y", count: 60_000))],
            (0..<150).map { ("x\($0)", "y") },
        ])
    func malformedRequestIsRefused(fields: [(String, String)]) async throws {
        try await refused(HTTP2TestClient.head("POST", "/proxy/shop/a", fields, stream: 1, ends: true))
    }

    @Test(
        "A target that is invalid in an HTTP/1.1 request line is refused",
        arguments: [
            [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/proxy/shop/a HTTP/1.1\r\nX: y")],
            [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/proxy/shop/a b")],
            [(":method", "GET /x"), (":scheme", "http"), (":authority", "localhost"), (":path", "/proxy/shop/a")],
            [(":method", "G\u{e9}T"), (":scheme", "http"), (":authority", "localhost"), (":path", "/proxy/shop/a")],
            [(":method", "GET"), (":scheme", "http"), (":authority", "localhost\r\nX: y"), (":path", "/proxy/shop/a")],
            [(":method", "GET"), (":scheme", "http"), (":authority", "elsewhere.example"), (":path", "/proxy/shop/a")],
            [(":method", "GET"), (":scheme", "http"), (":path", "/proxy/shop/a")],
            [(":method", "GET"), (":authority", "localhost"), (":path", "/proxy/shop/a")],
            [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "")],
            [(":method", "CONNECT"), (":authority", "localhost:80")],
            [
                (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"),
                (":path", "/proxy/shop/a"),
            ],
        ])
    func invalidHTTP1TargetIsRefused(fields: [(String, String)]) async throws {
        try await refused(HTTP2TestClient.block(fields, stream: 1, ends: true))
    }

    private func refused(_ frame: HTTP2TestClient.Frame) async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                // The listener may close the connection before it has read a frame that is too large.
                try? await client.send(frame)
                do {
                    let response = try await client.answer(1)
                    #expect(response.reset != nil || response.status.hasPrefix("4"), "\(response)")
                } catch is HTTP2TestClient.Closed {
                    #expect(client.goAway?.errorCode ?? Code.protocolError > 0)
                }
            }
            #expect(proxy.upstream.received == [])
            try await proxy.api.expect(200, "GET", "/healthz")
        }
    }

    @Test(
        "A request may name its host in Host alone, or identically in Host and :authority",
        arguments: [
            [("host", "localhost")], [(":authority", "localhost"), ("host", "LOCALHOST")],
            [("host", "sidecar.internal:80"), ("x", "y")],
        ])
    func hostField(fields: [(String, String)]) async throws {
        let pseudo = fields.filter { $0.0.hasPrefix(":") }
        let others = fields.filter { !$0.0.hasPrefix(":") }
        try await HTTPTestAPI.with(hosts: ["sidecar.internal"]) { api in
            try await Client.with(port: api.client.port) { client in
                let head = [(":method", "GET"), (":scheme", "http"), (":path", "/healthz")] + pseudo + others
                try await client.send(Client.block(head, stream: 1, ends: true))
                #expect(try await client.answer(1).status == "200")
            }
        }
    }

    @Test(
        "A request that names two hosts, or an unknown one, is refused",
        arguments: [
            [("host", "evil.example")], [("host", "localhost"), ("host", "localhost")],
            [(":authority", "localhost"), ("host", "evil.example")], [(":authority", "evil.example"), ("host", "localhost")],
        ])
    func wrongHostField(fields: [(String, String)]) async throws {
        let pseudo = fields.filter { $0.0.hasPrefix(":") }
        let others = fields.filter { !$0.0.hasPrefix(":") }
        try await refused(
            Client.block(
                [(":method", "GET"), (":scheme", "http"), (":path", "/proxy/shop/a")] + pseudo + others, stream: 1, ends: true))
    }

    // MARK: Floods

    @Test("A client that only opens and resets streams is disconnected, and its calls are finished")
    func rapidReset() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                for first in stride(from: UInt32(1), to: 20_001, by: 1000) {
                    let frames = stride(from: first, to: first + 1000, by: 2).flatMap { stream in
                        [Client.head("GET", "/proxy/shop/a", stream: stream), Client.reset(stream)]
                    }
                    // The listener may already have closed the connection.
                    guard (try? await client.send(frames)) != nil else { break }
                }
                let code = try await client.end()
                #expect(code ?? Code.enhanceYourCalm == Code.enhanceYourCalm)
            }
            try await proxy.waitUntilOutcomesReported()
            #expect(proxy.upstream.received.count < 20_000)
            try await proxy.api.expect(200, "GET", "/healthz")
        }
    }

    @Test("An endless header block ends the connection")
    func endlessHeaderBlockEndsConnection() async throws {
        try await HTTPTestAPI.with { api in
            try await Client.with(port: api.client.port) { client in
                var head = Client.head("GET", "/healthz", stream: 1)
                head.flags = Client.Frame.endStream
                let continuation = Client.Frame(kind: .continuation, stream: 1, payload: ByteBuffer(repeating: 0, count: 10))
                // The listener may close the connection before everything is sent.
                try? await client.send([head] + Array(repeating: continuation, count: 10_000))
                let code = try await client.end()
                #expect(code ?? Code.enhanceYourCalm > 0)
            }
            try await api.expect(200, "GET", "/healthz")
        }
    }

    @Test(
        "A flood of frames that require a response ends the connection or does not delay other requests",
        arguments: [HTTP2TestClient.Frame.Kind.ping, .settings])
    func controlFrames(kind: HTTP2TestClient.Frame.Kind) async throws {
        try await HTTPTestAPI.with(firstRequestTimeout: .seconds(60)) { api in
            try await Client.with(port: api.client.port) { client in
                let payload = kind == .ping ? ByteBuffer(repeating: 1, count: 8) : ByteBuffer()
                // Twice the number allowed per second; on a slow machine, slices let fewer than the limit through.
                let flood = Array(repeating: Client.Frame(kind: kind, payload: payload), count: 20_000)
                try? await client.send(flood + [Client.head("GET", "/healthz", stream: 1)])
                do {
                    let response = try await client.answer(1)
                    #expect(response.status == "200")
                } catch is HTTP2TestClient.Closed {
                    #expect(client.goAway?.errorCode ?? Code.enhanceYourCalm == Code.enhanceYourCalm)
                }
            }
            try await api.expect(200, "GET", "/healthz")
        }
    }

    // MARK: Windows

    @Test("A response fills the client's window and continues when it opens further")
    func responseRespectsClientWindow() async throws {
        let body = String(repeating: "0123456789", count: 1000)
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK", [], body) }) { proxy in
            try await Client.with(port: proxy.client.port, settings: [(4, 10)]) { client in
                try await client.send(Client.head("GET", "/proxy/shop/a", stream: 1))
                var response = try await client.answer(1) { !$0.body.isEmpty }
                #expect(response.body == "0123456789")
                try await client.send(Client.windowUpdate(1, by: 5))
                response = try await client.answer(1) { $0.body.utf8.count > 10 }
                #expect(response.body == "012345678901234")
                // Each stream has its own window.
                try await client.send(Client.head("GET", "/proxy/shop/b", stream: 3))
                #expect(try await client.answer(3) { !$0.body.isEmpty }.body == "0123456789")
                try await client.send(Client.windowUpdate(1, by: 1_000_000))
                #expect(try await client.answer(1).body == body)
            }
        }
    }

    @Test("A response sent before its request ends is complete, and then the stream ends")
    func earlyResponseIsComplete() async throws {
        let body = String(repeating: "0123456789", count: 100)
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK", [], body) }) { proxy in
            try await Client.with(port: proxy.client.port, settings: [(4, 10)]) { client in
                try await client.send(
                    Client.head("POST", "/proxy/shop/a", stream: 1, ends: false), Client.data("x", stream: 1, ends: false))
                _ = try await client.answer(1) { $0.body.utf8.count == 10 }
                try await client.send(Client.windowUpdate(1, by: 100_000))
                #expect(try await client.answer(1).body == body)
                // An oversized body gets a complete error answer, even if the frame that exceeds the limit is its last.
                let large = String(repeating: "x", count: 16_000)
                try await client.send(Client.head("POST", "/v1/locks/a", stream: 3, ends: false))
                for turn in 1...5 { try await client.send(Client.data(large, stream: 3, ends: turn == 5)) }
                try await client.send(Client.windowUpdate(3, by: 100_000))
                let refusal = try await client.answer(3)
                #expect(refusal.status == "413" && refusal.body.contains("too_large") && refusal.reset == nil)
            }
        }
    }

    @Test("A stream with an unwanted body is answered, and reset without an error if it sends too much")
    func unwantedBody() async throws {
        try await HTTPTestAPI.with { api in
            try await Client.with(port: api.client.port) { client in
                let part = String(repeating: "x", count: 10_000)
                try await client.send(Client.head("POST", "/nowhere", stream: 1, ends: false))
                #expect(try await client.answer(1).status == "404")
                let ping = Client.Frame(kind: .ping, payload: ByteBuffer(repeating: 1, count: 8))
                var reset: UInt32?
                for _ in 1...20 where reset == nil {
                    try await client.send(Client.data(part, stream: 1, ends: false), ping)
                    let frame = try await client.frame()
                    if frame.kind == .reset { reset = frame.errorCode }
                }
                #expect(reset == Code.none)
                // A small body is received completely.
                try await client.send(
                    Client.head("POST", "/nowhere", stream: 3, ends: false), Client.data(part, stream: 3, ends: true),
                    Client.head("GET", "/healthz", stream: 5))
                #expect(try await client.answer(5).status == "200")
                let small = try await client.answer(3)
                #expect(small.status == "404" && small.reset == nil)
                // A body with a small announced length is received completely, too.
                try await client.send(Client.head("POST", "/nowhere", [("content-length", "100000")], stream: 7, ends: false))
                #expect(try await client.answer(7).status == "404")
                for number in 1...10 {
                    try await client.send(Client.data(part, stream: 7, ends: number == 10), ping)
                    #expect(try await client.frame().kind == .ping)
                }
            }
        }
    }

    @Test("Cancelling hundreds of streams affects no other stream")
    func cancelledStreams() async throws {
        try await ProxyTestAPI.with(
            configure: { $0.upstream?.retries.attempts = 0 },
            upstream: { call in
                if call.request.hasSuffix("/last") { return try await call.answer("200 OK", [], "x") }
                while try await call.nextBytes() != nil {}
            }
        ) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                // More than 100 streams are allowed only once the client has seen the server's settings.
                try await client.send(Client.head("GET", "/healthz", stream: 1))
                #expect(try await client.answer(1).status == "200")
                let calls = stride(from: UInt32(3), to: 300, by: 2)
                try await client.send(calls.map { Client.head("POST", "/proxy/shop/a", stream: $0, ends: false) })
                try await proxy.waitUntilCallBegins()
                try await client.send(calls.map { Client.reset($0) })
                try await client.send(Client.head("GET", "/proxy/shop/last", stream: 301))
                #expect(try await client.answer(301).body == "x")
            }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A client that exceeds its window ends its stream or connection")
    func windowExceeded() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60))]
            $0.onLimit = LimitPolicy(action: .wait, maximumWait: .seconds(60))
        }
        try await ProxyTestAPI.with(configure: configure, upstream: { try await $0.answer("200 OK") }) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(Client.head("GET", "/proxy/shop/a", stream: 1))
                #expect(try await client.answer(1).status == "200")
                let part = Client.data(String(repeating: "x", count: 16_000), stream: 3, ends: false)
                // The call waits for the limit, so its body is not read and its window does not open.
                try? await client.send(
                    [Client.head("POST", "/proxy/shop/a", stream: 3, ends: false)] + Array(repeating: part, count: 200))
                do {
                    let response = try await client.answer(3)
                    #expect(response.reset == Code.flowControl)
                } catch is HTTP2TestClient.Closed {
                    #expect(client.goAway?.errorCode ?? Code.flowControl == Code.flowControl)
                }
            }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A window update of zero, or one that overflows, is refused", arguments: [UInt32(0x7FFF_FFFF), 0])
    func windowOverflow(increment: UInt32) async throws {
        try await HTTPTestAPI.with { api in
            try await Client.with(port: api.client.port) { client in
                try await client.send(Client.windowUpdate(0, by: increment))
                let code = try await client.end()
                #expect(code ?? Code.protocolError > 0)
            }
        }
    }

    @Test("An upstream waits for a client that does not read, until timeouts.total ends the call")
    func slowReader() async throws {
        let configure: (inout ServiceDefinition) -> Void = { $0.upstream?.totalTimeout = .milliseconds(300) }
        try await ProxyTestAPI.with(
            configure: configure,
            upstream: { call in
                try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                let part = "10000\r\n" + String(repeating: "x", count: 65_536) + "\r\n"
                while true { try await call.send(part) }
            }
        ) { proxy in
            // A slow machine may respond with a problem document instead, for which the window has room.
            try await Client.with(port: proxy.client.port, settings: [(4, 2000)]) { client in
                try await client.send(Client.head("GET", "/proxy/shop/a", stream: 1))
                let response = try await client.answer(1, opensWindow: false)
                #expect(response.status == "504" || response.body.utf8.count == 2000 && response.reset != nil)
            }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    // MARK: The proxy

    @Test("Trailers of an HTTP/1.1 upstream are forwarded, and request bodies are streamed")
    func http1TrailersAreForwarded() async throws {
        try await ProxyTestAPI.with(
            upstream: { call in
                try await call.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")
                var received = ""
                while !received.contains("0\r\n\r\n"), let nextBytes = try await call.nextBytes() {
                    received += String(buffer: nextBytes)
                    try await call.send("2\r\nok\r\n")
                }
                try await call.send("0\r\nX-Sum: 7\r\nInterlock-State: open\r\n\r\n")
            }
        ) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(
                    Client.head("POST", "/proxy/shop/a", [("cookie", "a=1"), ("cookie", "b=2")], stream: 1, ends: false),
                    Client.data("one", stream: 1, ends: false))
                // The response begins before the request has ended.
                _ = try await client.answer(1) { $0.body.hasPrefix("ok") }
                try await client.send(Client.data("two", stream: 1, ends: true))
                let response = try await client.answer(1)
                #expect(response.status == "200" && response.trailers.map(\.name) == ["x-sum"], "\(response)")
            }
            let head = try #require(proxy.upstream.received.first)
            #expect(head.contains("ookie: a=1; b=2\r\n") && head.contains("Via: 2 interlock") && !head.contains(":authority"))
        }
    }

    @Test(
        "A request without a body is forwarded without one, regardless of its method",
        arguments: ["GET", "HEAD", "POST", "DELETE"])
    func bodiless(method: String) async throws {
        try await ProxyTestAPI.with(
            upstream: { call in try await call.send("HTTP/1.1 200 OK\r\nContent-Length: \(method == "HEAD" ? 9 : 0)\r\n\r\n") }
        ) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(
                    Client.head(method, "/proxy/shop/a", stream: 1), Client.head(method, "/proxy/shop/a", stream: 3))
                for stream: UInt32 in [1, 3] {
                    let response = try await client.answer(stream)
                    #expect(response.status == "200" && response.body.isEmpty && response.reset == nil)
                }
            }
            #expect(!proxy.upstream.received.contains { $0.lowercased().contains("transfer-encoding") })
        }
    }

    @Test("A truncated response resets its stream")
    func truncatedResponseResetsStream() async throws {
        try await ProxyTestAPI.with(
            upstream: { call in
                try await call.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
                throw TestUpstream.Close()
            }
        ) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(Client.head("GET", "/proxy/shop/a", stream: 1))
                let response = try await client.answer(1)
                #expect(response.status == "200" && response.body == "half" && response.reset != nil)
                try await client.send(Client.head("GET", "/healthz", stream: 3))
                #expect(try await client.answer(3).status == "200")
            }
        }
    }

    @Test("A client that disconnects ends its calls and frees their permits")
    func clientThatDisconnectsEndsCallsAndFreesPermits() async throws {
        try await ProxyTestAPI.with(upstream: { call in while try await call.nextBytes() != nil {} }) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(
                    Client.head("GET", "/proxy/shop/a", stream: 1), Client.head("GET", "/proxy/shop/b", stream: 3))
                try await proxy.waitUntilCallBegins()
                try await client.send(Client.reset(1))
            }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("The path after a service's name belongs to the upstream, and an unknown name is rejected")
    func pathAfterServiceNameBelongsToUpstream() async throws {
        try await ProxyTestAPI.with(path: "", upstream: { try await $0.answer("200 OK", [], "x") }) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(
                    Client.head("GET", "/v1/locks/a?b=c", [("interlock-service", "shop")], stream: 1),
                    Client.head("GET", "/a", [("interlock-service", "sh op")], stream: 3),
                    Client.head("GET", "/a", [("interlock-service", "../v1")], stream: 5))
                #expect(try await client.answer(1).body == "x")
                #expect(try await client.answer(3).status == "400")
                #expect(try await client.answer(5).status == "404")
            }
            #expect(proxy.upstream.received.count == 1)
            #expect(proxy.upstream.received.first?.hasPrefix("GET /v1/locks/a?b=c HTTP/1.1\r\n") == true)
            #expect(proxy.upstream.received.first?.lowercased().contains("interlock-service") == false)
        }
    }

    // MARK: Closing connections

    @Test("An idle connection gets a GOAWAY and is closed; a silent one is closed")
    func idleConnectionGetsGoawayAndIsClosed() async throws {
        try await HTTPTestAPI.with(firstRequestTimeout: .milliseconds(100)) { api in
            try await Client.with(port: api.client.port) { client in
                let code = try await client.end()
                // On a slow machine, the deadline may pass before the client has sent its preface.
                #expect(code ?? Code.none == Code.none)
            }
            let half = try await RawConnection.exchange(port: api.client.port, String(Client.preface.prefix(10)))
            #expect(half.isEmpty)
        }
        // The timeout allows a slow machine to send the first request.
        try await HTTPTestAPI.with(firstRequestTimeout: .seconds(20), idleTimeout: .milliseconds(100)) { api in
            try await Client.with(port: api.client.port) { client in
                try await client.send(Client.head("GET", "/healthz", stream: 1))
                #expect(try await client.answer(1).status == "200")
                #expect(try await client.end() == Code.none)
                #expect(client.goAway?.payload.getInteger(at: client.goAway?.payload.readerIndex ?? 0, as: UInt32.self) == 1)
            }
        }
    }

    @Test("A shutdown answers the active requests and accepts no further ones")
    func shutdownAnswersOnlyActiveRequests() async throws {
        try await ProxyTestAPI.with(
            upstream: { call in
                _ = try await call.nextBytes()
                try await call.answer("200 OK", [], "late")
            }
        ) { proxy in
            try await Client.with(port: proxy.client.port) { client in
                try await client.send(Client.head("POST", "/proxy/shop/a", stream: 1, ends: false))
                try await proxy.waitUntilCallBegins()
                await proxy.api.shutDown()
                while client.goAway == nil { _ = try await client.frame() }
                try await client.send(Client.data("x", stream: 1, ends: true), Client.head("GET", "/healthz", stream: 3))
                #expect(try await client.answer(1).body == "late")
                #expect(try await client.end() == Code.none)
            }
        }
    }

    @Test("Streams count toward the connection limit, and those beyond it can read only the sidecar's health")
    func manyStreams() async throws {
        try await HTTPTestAPI.with(maximumConnections: 2) { api in
            try await Client.with(port: api.client.port) { client in
                for stream: UInt32 in [1, 3] {
                    try await client.send(Client.head("POST", "/v1/locks/a", stream: stream, ends: false))
                }
                try await client.send(
                    Client.head("GET", "/v1/locks", stream: 5), Client.head("GET", "/healthz", stream: 7))
                #expect(try await client.answer(5).status == "503")
                #expect(try await client.answer(7).status == "200")
                try await client.send(Client.reset(1), Client.head("GET", "/v1/locks", stream: 9))
                #expect(try await client.answer(9).status == "200")
            }
        }
    }

    @Test("On a connection beyond the limit, only one health request is answered")
    func full() async throws {
        try await HTTPTestAPI.with(maximumConnections: 1) { api in
            try await Client.with(port: api.client.port) { first in
                try await first.send(Client.head("GET", "/healthz", stream: 1))
                #expect(try await first.answer(1).status == "200")
                try await Client.with(port: api.client.port) { second in
                    try await second.send(
                        Client.head("GET", "/healthz", stream: 1), Client.head("POST", "/v1/locks/a", stream: 3))
                    #expect(try await second.answer(1).status == "200")
                    #expect(try await second.answer(3).status == "503")
                    #expect(try await second.end() == Code.none)
                }
            }
        }
    }
}

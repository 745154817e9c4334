import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

/// Requests are smuggled past a proxy if it disagrees with the next server about where a message ends (RFC 9112,
/// section 11.2). Each test hides a second request, which must not reach the upstream as if the client had sent it.
@Suite("Proxy: request smuggling", .timeLimit(.minutes(1)))
struct ProxySmugglingTests {
    private static let hidden = "GET /proxy/shop/hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func post(_ fields: String, _ body: String) -> String {
        "POST /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n\r\n\(body)"
    }

    /// Sends bytes through the proxy. Returns its responses and the requests that reached the upstream.
    private func exchange(
        _ bytes: String, upstream handler: @escaping TestUpstream.Handler = { try await $0.answer("200 OK", [], "x") }
    ) async throws -> (responses: String, forwarded: [String]) {
        var responses = ""
        var forwarded: [String] = []
        try await TestUpstream.with(handler) { upstream in
            let service = ServiceDefinition(
                name: "shop", upstream: UpstreamSettings(url: "http://127.0.0.1:\(upstream.port)"))
            try await HTTPTestAPI.with(services: [service], idleTimeout: .milliseconds(300)) { api in
                responses = try await RawConnection.exchange(port: api.client.port, bytes)
                try await api.expect(200, "GET", "/healthz")
            }
            forwarded = upstream.received.map { String($0.prefix { $0 != "\r\n" }) }
        }
        return (responses, forwarded)
    }

    @Test(
        "A request with an ambiguous end is refused with everything after it, and reaches no upstream",
        arguments: [
            "Content-Length: 0\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 6", "Content-Length: +5", "Content-Length: -5",
            "Content-Length: 0x5", "Content-Length: 5 5", "Content-Length: 99999999999999999999", "Content-Length: five",
            "Transfer-Encoding: xchunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding : chunked",
            "Transfer-Encoding: \u{b}chunked", "Content-Length : 5", "Content-Length: 5\r\n folded",
            "X: a\rTransfer-Encoding: chunked", "X: a\u{0}b", "Host: elsewhere.example\r\nConnection: close",
            "Host: localhost\r\nConnection: close", ": x", "X Y: z",
        ])
    func unclear(fields: String) async throws {
        let (responses, forwarded) = try await exchange(Self.post(fields, "5\r\nhello\r\n0\r\n\r\n" + Self.hidden))
        // An unknown coding may be a future one (RFC 9112, section 6.1).
        let status = fields.contains("xchunked") ? "HTTP/1.1 501 " : "HTTP/1.1 400 "
        #expect(responses.hasPrefix(status), "\(responses)")
        #expect(responses.ranges(of: status).count == 1 && !responses.contains("HTTP/1.1 200 "), "\(responses)")
        #expect(forwarded == [])
    }

    @Test(
        "A malformed chunked body ends the call, and nothing after it becomes a request",
        arguments: [
            "5\r\nhello0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "-1\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n",
            "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", "\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n",
            "g\r\n",
        ])
    func malformedChunkedBodyEndsCall(body: String) async throws {
        let (responses, forwarded) = try await exchange(Self.post("Transfer-Encoding: chunked", body + Self.hidden)) { call in
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        #expect(!responses.contains("HTTP/1.1 200 "), "\(responses)")
        #expect(forwarded.count <= 1 && !forwarded.contains { $0.contains("hidden") }, "\(forwarded)")
    }

    @Test(
        "Pipelined requests are answered in order, each with its own body",
        arguments: [
            ("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
            ("Transfer-Encoding: Chunked", "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"),
            ("Content-Length: 005", "hello"),
        ])
    func pipelinedRequestsAreAnsweredInOrder(fields: String, body: String) async throws {
        let behind = "GET /proxy/shop/b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let (responses, forwarded) = try await exchange(Self.post(fields, body) + behind) { call in
            var received = ""
            if call.head.hasPrefix("POST") {
                while !received.contains("hello"), !received.hasSuffix("0\r\n\r\n"), let nextBytes = try await call.nextBytes() {
                    received += String(buffer: nextBytes)
                }
            }
            try await call.answer("200 OK", [], call.request)
        }
        #expect(responses.ranges(of: "HTTP/1.1 200 ").count == 2, "\(responses)")
        #expect(forwarded == ["POST /a HTTP/1.1", "GET /b HTTP/1.1"])
        let first = try #require(responses.firstRange(of: "POST /a")), second = try #require(responses.firstRange(of: "GET /b"))
        #expect(first.lowerBound < second.lowerBound)
    }

    @Test(
        "A malformed request line is refused",
        arguments: [
            "GET /proxy/shop/a\r\n\r\n",
            "GET /proxy/shop/a HTTP/2.0\r\nHost: localhost\r\n\r\n", "GET /proxy/shop/a HTTP/1.1 x\r\nHost: localhost\r\n\r\n",
            "G\u{0}T /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\r\n", "FROBNICATE-ALL /proxy/shop/a HTTP/9\r\n\r\n",
            "\u{16}\u{3}\u{1}\u{2}\r\n\r\n",
        ])
    func requestLine(bytes: String) async throws {
        let (responses, forwarded) = try await exchange(bytes + Self.hidden)
        #expect(responses.isEmpty || responses.hasPrefix("HTTP/1.1 4"), "\(responses)")
        #expect(forwarded == [])
    }

    @Test("Trailers cannot set the next length, the caller or the sidecar's own fields")
    func trailersCannotSetProtectedFields() async throws {
        let body = "5\r\nhello\r\n0\r\nX-Sum: 1\r\nAuthorization: x\r\nInterlock-Subject: y\r\n\r\n"
        let answered = "5\r\nhello\r\n0\r\nX-Sum: 2\r\nSet-Cookie: a=b\r\nInterlock-State: open\r\n\r\n"
        let (responses, _) = try await exchange(Self.post("Connection: close\r\nTransfer-Encoding: chunked", body)) { call in
            var received = ""
            while !received.hasSuffix("\r\n\r\n"), let nextBytes = try await call.nextBytes() {
                received += String(buffer: nextBytes)
            }
            #expect(received.lowercased().hasSuffix("0\r\nx-sum: 1\r\n\r\n"), "\(received)")
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(answered)")
        }
        #expect(responses.lowercased().hasSuffix("0\r\nx-sum: 2\r\n\r\n"), "\(responses)")
    }

    @Test(
        "A response with an ambiguous end is malformed",
        arguments: [
            "Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6", "Content-Length: -1",
            "Content-Length: 5\r\n folded", "Content-Length : 5", "X: a\u{0}b", "Transfer-Encoding: chunked\r\nContent-Length: 5",
        ])
    func unclearAnswer(fields: String) async throws {
        let (responses, forwarded) = try await exchange(
            "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ) { call in
            try await call.send("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\nhello")
        }
        #expect(responses.hasPrefix("HTTP/1.1 502 "), "\(responses)")
        #expect(forwarded.count == 1)
    }

    @Test(
        "Bytes after a response reach no client",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "evil", "\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        ])
    func behindAnAnswer(bytes: String) async throws {
        let request = "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let last = "GET /proxy/shop/b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let (responses, forwarded) = try await exchange(request + request + last) { call in
            try await call.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\(bytes)")
        }
        #expect(responses.ranges(of: "HTTP/1.1 200 ").count == 3, "\(responses)")
        #expect(!responses.contains("evil"), "\(responses)")
        #expect(forwarded.count == 3)
    }

    @Test(
        "A response without a body stays without one, whatever its fields claim",
        arguments: ["204 No Content", "304 Not Modified"])
    func withoutBody(status: String) async throws {
        let request = "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let last = "GET /proxy/shop/b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let (responses, _) = try await exchange(request + last) { call in
            try await call.send("HTTP/1.1 \(status)\r\nContent-Length: 4\r\n\r\nevil")
        }
        #expect(responses.ranges(of: "HTTP/1.1 \(status.prefix(3)) ").count == 2, "\(responses)")
        #expect(!responses.contains("evil"), "\(responses)")
    }

    @Test("Informational responses are not forwarded as the final response")
    func informationalResponsesAreNotForwardedAsFinalResponse() async throws {
        let (responses, _) = try await exchange(
            "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ) { call in
            try await call.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            try await call.answer("200 OK", [], "whole")
        }
        #expect(responses.contains("\r\n\r\nHTTP/1.1 200 ") && responses.hasSuffix("whole"), "\(responses)")
    }

    @Test("A response head over the limit is refused, and the connection is closed")
    func hugeAnswer() async throws {
        let (responses, _) = try await exchange(
            "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ) { call in
            try await call.send("HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 512 * 1024))\r\n\r\n")
        }
        #expect(responses.hasPrefix("HTTP/1.1 502 "), "\(responses.prefix(300))")
    }

    @Test("A large body pipelined after a slow call reaches its call intact")
    func behindASlowCall() async throws {
        let body = String(repeating: "x", count: 200_000)
        let slow = "GET /proxy/shop/slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let bytes = slow + Self.post("Connection: close\r\nContent-Length: \(body.utf8.count)", body)
        let (responses, forwarded) = try await exchange(bytes) { call in
            guard let length = call.values("content-length").first.flatMap({ Int($0) }) else {
                // The pause allows everything that fits to arrive at the listener.
                try await Task.sleep(for: .milliseconds(100))
                return try await call.answer("200 OK", [], "first")
            }
            var received = 0
            while received < length, let nextBytes = try await call.nextBytes() { received += nextBytes.readableBytes }
            try await call.answer("200 OK", [], "second \(received)")
        }
        #expect(forwarded == ["GET /slow HTTP/1.1", "POST /a HTTP/1.1"])
        #expect(responses.contains("first") && responses.hasSuffix("second 200000"), "\(responses)")
    }

    @Test("A truncated response is visibly truncated, even without a declared length")
    func truncatedResponseIsVisiblyTruncated() async throws {
        let (responses, _) = try await exchange(
            "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ) { call in
            try await call.send("HTTP/1.1 200 OK\r\n\r\npart")
            try await call.reset()
            throw TestUpstream.Close()
        }
        #expect(!responses.hasSuffix("0\r\n\r\n"), "\(responses)")
    }

    @Test("A server that accepts and stays silent delays one call, and not the next")
    func silentHandshake() async throws {
        try await TestUpstream.with({ _ in }) { upstream in
            var settings = UpstreamSettings(url: "https://127.0.0.1:\(upstream.port)")
            settings.connectTimeout = .milliseconds(100)
            settings.retries.attempts = 0
            let service = ServiceDefinition(name: "shop", upstream: settings, concurrency: 1)
            try await HTTPTestAPI.with(services: [service]) { api in
                for number in 1...3 {
                    try await api.expect(504, "GET", "/proxy/shop/a")
                    try await eventually("the upstream has accepted the call") { upstream.connectionCount == number }
                }
            }
        }
    }
}

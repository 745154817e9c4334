import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@Suite("Proxy: a call and its response")
struct ProxyTests {
    @Test(
        "Method, path and query arrive below the base path",
        arguments: [
            ("GET", "/proxy/shop/items/7?a=b&c=%20d", "GET /v1/items/7?a=b&c=%20d"), ("POST", "/proxy/shop", "POST /v1"),
            ("DELETE", "/proxy/shop/", "DELETE /v1/"), ("PROPFIND", "/proxy/shop/a%2Fb//c", "PROPFIND /v1/a%2Fb//c"),
            ("OPTIONS", "/proxy/shop?x", "OPTIONS /v1?x"), ("PATCH", "/proxy/sho%70/x", "PATCH /v1/x"),
        ])
    func methodPathAndQueryArriveBelowBasePath(method: String, path: String, expected: String) async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            try await proxy.api.expect(200, method, path)
            let head = try #require(proxy.upstream.received.first)
            #expect(head.hasPrefix(expected + " HTTP/1.1\r\n"))
        }
    }

    @Test("The response is the upstream's, with the sidecar's own fields")
    func upstreamResponseHasSidecarFields() async throws {
        let upstream: TestUpstream.Handler = {
            try await $0.answer("404 Gone Fishing", ["Content-Type: text/x", "Cache-Control: max-age=9", "X-A: 1"], "fish")
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let response = try await proxy.client.exchange(
                HTTPTestClient.request("GET", "/proxy/shop/a", nil, headers: [:], port: proxy.client.port, closing: true))
            #expect(response.hasPrefix("HTTP/1.1 404 Gone Fishing\r\n") || response.hasPrefix("HTTP/1.1 404 Not Found\r\n"))
            let reply = try HTTPTestClient.parse(response)
            #expect(reply.body == "fish")
            #expect(reply.headers["content-type"] == "text/x")
            #expect(reply.headers["content-length"] == "4")
            #expect(reply.headers["x-a"] == "1")
            #expect(reply.headers["interlock-service"] == "shop")
            #expect(reply.headers["interlock-state"] == "closed")
            #expect(reply.headers["interlock-waited"].flatMap { Int($0) } != nil)
            #expect(reply.headers["via"] == "1.1 interlock")
            #expect(reply.headers["cache-control"] == "max-age=9")
            #expect(reply.headers["x-content-type-options"] == nil)
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("The sidecar's key is not forwarded, and the upstream's credentials grant no access here")
    func sidecarKeyIsNotForwarded() async throws {
        try await ProxyTestAPI.with(keys: [HTTPTestAPI.web], upstream: { try await $0.answer("200 OK") }) { proxy in
            let credentials = ["X-Api-Key": "web-secret", "Authorization": "Bearer theirs", "Interlock-Subject": "alice"]
            try await proxy.api.expect(200, "GET", "/proxy/shop/a", headers: credentials)
            let head = try #require(proxy.upstream.received.first).lowercased()
            #expect(head.contains("authorization: bearer theirs"))
            #expect(!head.contains("web-secret"))
            #expect(!head.contains("interlock-subject"))
            #expect(head.contains("\r\nhost: 127.0.0.1:\(proxy.upstream.port)\r\n"))
            #expect(head.contains("forwarded: for=127.0.0.1;host=\"127.0.0.1:\(proxy.client.port)\";proto=http"))
            try await proxy.api.expect(401, "GET", "/proxy/shop/a", headers: ["Authorization": "Bearer web-secret"])
            try await proxy.api.expect(401, "GET", "/proxy/shop/a", headers: ["X-Api-Key": "wrong"])
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("Redirects are forwarded and not followed")
    func redirectsAreForwardedAndNotFollowed() async throws {
        let upstream: TestUpstream.Handler = { try await $0.answer("302 Found", ["Location: http://127.0.0.1:1/elsewhere"]) }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let reply = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(reply.status == 302)
            #expect(reply.headers["location"] == "http://127.0.0.1:1/elsewhere")
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("Only configured services with a URL are called, and only below their base path")
    func noOpenProxy() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            try await proxy.api.expect(404, "GET", "/proxy/other/a")
            try await proxy.api.expect(404, "GET", "/proxy/http:%2F%2F127.0.0.1:\(proxy.upstream.port)/a")
            for path in ["../admin", "%2e%2e/admin", "..%2fadmin", "%ff"] {
                try await proxy.api.expect(400, "GET", "/proxy/shop/\(path)")
            }
            let escaping = try await proxy.api.client.send("GET", "/proxy/shop/%2e%2e/admin")
            #expect(escaping.text("code") == "invalid")
            #expect(escaping.text("detail") == "the path contains a segment that decodes to . or ..")
            try await proxy.api.expect(421, "GET", "/proxy/shop/a", headers: ["Host": "evil.example"])
            try await proxy.api.expect(403, "GET", "/proxy/shop/a", headers: ["Origin": "http://evil.example"])
            #expect(proxy.upstream.received.isEmpty)
        }
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("GET", "/proxy/catalog/a")
            #expect(refusal.status == 404)
            #expect(refusal.text("code") == "no_url")
            #expect(refusal.text("title") == "The service has no URL")
            let unknown = try await api.client.send("GET", "/proxy/catlog/a")
            #expect(unknown.status == 404)
            #expect(unknown.text("code") == "unknown_service")
            #expect(unknown.text("detail") == "no service \"catlog\" is configured; did you mean catalog?")
        }
    }

    @Test(
        "A response without a body is complete, and the connection continues",
        arguments: [
            ("HEAD", "200 OK", ["Content-Length: 1234"]), ("GET", "204 No Content", []),
            ("GET", "304 Not Modified", ["ETag: \"x\""]),
            ("HEAD", "404 Not Found", ["Content-Length: 5"]),
        ])
    func responseWithoutBodyIsComplete(method: String, status: String, fields: [String]) async throws {
        let upstream: TestUpstream.Handler = { call in
            if call.request.hasSuffix("/last") { return try await call.answer("200 OK", [], "last") }
            try await call.send("HTTP/1.1 \(status)\r\n\(fields.map { $0 + "\r\n" }.joined())\r\n")
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let port = proxy.client.port
            let both =
                HTTPTestClient.request(method, "/proxy/shop/first", nil, headers: [:], port: port, closing: false)
                + HTTPTestClient.request("GET", "/proxy/shop/last", nil, headers: [:], port: port, closing: true)
            let responses = try await proxy.client.exchange(both)
            let end = try #require(responses.firstRange(of: "\r\n\r\n"))
            let first = try HTTPTestClient.parse(String(responses[..<end.upperBound]))
            #expect(status.hasPrefix("\(first.status)"))
            if method == "HEAD" { #expect(fields == ["Content-Length: \(first.headers["content-length"] ?? "")"]) }
            let last = try HTTPTestClient.parse(String(responses[end.upperBound...]))
            #expect(last.body == "last")
        }
    }

    @Test("A response to HEAD without a length ends with its head")
    func headWithoutLength() async throws {
        let upstream: TestUpstream.Handler = { try await $0.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let response = try await proxy.client.exchange(
                HTTPTestClient.request("HEAD", "/proxy/shop/a", nil, headers: [:], port: proxy.client.port, closing: false))
            #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(response.hasSuffix("\r\n\r\n"))
            #expect(!response.hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("Compressed bytes are forwarded unchanged")
    func compressedBytesAreForwardedUnchanged() async throws {
        let bytes: [UInt8] = [
            0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 7, 0, 0x86, 0xA6, 0x10, 0x36, 5, 0, 0, 0,
        ]
        let upstream: TestUpstream.Handler = { call in
            #expect(call.values("accept-encoding") == ["gzip"])
            try await call.send("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n")
            try await call.send(ByteBuffer(bytes: bytes))
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let request = HTTPTestClient.request(
                "GET", "/proxy/shop/a", nil, headers: ["Accept-Encoding": "gzip"], port: proxy.client.port, closing: true)
            let received = try await ProxyTestClient.exchange(port: proxy.client.port, head: request, body: ByteBuffer())
            #expect(received.head.lowercased().contains("content-encoding: gzip"))
            #expect(received.body == ByteBuffer(bytes: bytes))
        }
    }

    @Test("Upstream connections are reused")
    func keepAlive() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK", [], "x") }) { proxy in
            for _ in 0..<10 { try await proxy.api.expect(200, "GET", "/proxy/shop/a") }
            #expect(proxy.upstream.connectionCount < 10)
        }
    }
}

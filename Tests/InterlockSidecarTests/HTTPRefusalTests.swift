import Interlock
import SidecarSettings
import NIOCore
import NIOPosix
import Testing

@Suite("HTTP API: refusals")
struct HTTPRefusalTests {
    @Test(
        "An invalid body is refused, and the error names the field",
        arguments: [
            (#"{"ttl_ms": "#, "not well-formed JSON"),
            ("[1]", "the body is an array"),
            ("7", "the body is 7"),
            ("{}", "ttl_ms is missing"),
            (#"{"ttl_ms": null}"#, "ttl_ms is missing"),
            (#"{"ttl_ms": "5000"}"#, "ttl_ms: expected a whole number"),
            (#"{"ttl_ms": 5000.5}"#, "ttl_ms: expected a whole number"),
            (#"{"ttl_ms": true}"#, "ttl_ms: expected a whole number"),
            (#"{"ttl_ms": 0}"#, "ttl_ms: expected a whole number from 1"),
            (#"{"ttl_ms": -5}"#, "got -5"),
            (#"{"ttl_ms": 1}"#, "expected a ttl from 5 to 3600000 ms (locks.min_ttl, locks.max_ttl), got 1; 1 s is 1000 ms"),
            (#"{"ttl_ms": 3600001}"#, "(locks.min_ttl, locks.max_ttl), got 3600001"),
            (#"{"ttl_ms": 99999999999999999999999}"#, "ttl_ms: expected a whole number"),
            (#"{"ttl_ms": 5000, "wait_ms": -1}"#, "wait_ms: expected a whole number from 0"),
            (#"{"ttl_ms": 5000, "wait_ms": [1]}"#, "got an array"),
            (#"{"ttl_ms": [[1, "]]"]]}"#, "got an array"),
            // Bodies nested deeper than any request needs are not decoded.
            (#"{"ttl_ms": [[[1]]]}"#, "nested deeper than 3 levels"),
            (#"{"ttl_ms": 5000, "owner": "a \"[[[["}"#, "owner: the owner contains"),
            (#"{"ttl_ms": \#(String(repeating: "[", count: 500))\#(String(repeating: "]", count: 500))}"#, "nested deeper than"),
            (String(repeating: #"{"a":"#, count: 10_000), "not well-formed JSON"),
            (#"{"ttl_ms": 5000, "owner": 7}"#, "owner: expected a string, got 7"),
            (#"{"ttl_ms": 5000, "owner": "a b"}"#, "owner: the owner contains a space"),
            (#"{"ttl_ms": 5000, "label": ""}"#, "label: the label is empty"),
            (#"{"ttl_ms": 5000, "tll": 1}"#, "unknown field \"tll\"; expected ttl_ms, wait_ms, owner, label"),
        ])
    func badBodies(body: String, detail: String) async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("POST", "/v1/locks/a", body)
            #expect(refusal.status == 400)
            #expect(refusal.text("code") == "invalid")
            #expect(refusal.text("type") == "urn:interlock:error:invalid")
            #expect(refusal.integer("status") == 400)
            #expect(refusal.text("detail")?.contains(detail) == true, "got: \(refusal.body)")
        }
    }

    @Test("A body above 64 KiB is refused, and one of 64 KiB is accepted")
    func bodySize() async throws {
        try await HTTPTestAPI.with { api in
            let padding = String(repeating: " ", count: 64 * 1024 - 15)
            let maximum = "{\"ttl_ms\": 5000\(padding.dropLast())}"
            #expect(maximum.utf8.count == 64 * 1024)
            try await api.expect(201, "POST", "/v1/locks/a", maximum)
            try await api.expect(413, "POST", "/v1/locks/b", maximum + " ")

            let chunk = String(repeating: " ", count: 40_000)
            let chunked = "\(String(chunk.utf8.count, radix: 16))\r\n\(chunk)\r\n"
            let responses = try await api.client.exchange(
                """
                POST /v1/locks/b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r
                \r\n\(chunked)\(chunked)0\r\n\r\n
                """)
            #expect(try HTTPTestClient.parse(responses).status == 413)
        }
    }

    @Test("A body is read as JSON regardless of its content type, so curl -d works")
    func mediaType() async throws {
        try await HTTPTestAPI.with { api in
            let form = ["Content-Type": "application/x-www-form-urlencoded"]
            try await api.expect(201, "POST", "/v1/locks/b", #"{"ttl_ms": 5000}"#, headers: form)
            let json = ["Content-Type": "application/json; charset=utf-8"]
            try await api.expect(201, "POST", "/v1/locks/a", #"{"ttl_ms": 5000}"#, headers: json)
            try await api.expect(200, "POST", "/v1/limits/catalog/take", "", headers: form)
        }
    }

    @Test("A client that sends Expect: 100-continue gets 100 Continue")
    func expectContinue() async throws {
        try await HTTPTestAPI.with { api in
            let responses = try await api.client.exchange(
                HTTPTestClient.request(
                    "POST", "/v1/locks/a", #"{"ttl_ms": 5000}"#, headers: ["Expect": "100-continue"], port: api.client.port,
                    closing: true))
            #expect(responses.hasPrefix("HTTP/1.1 100 Continue\r\n\r\n"))
            #expect(try HTTPTestClient.parse(responses).status == 201)
        }
    }

    @Test("An unknown path is not found, and the error for a wrong method lists the allowed ones")
    func unknownPathIsNotFound() async throws {
        try await HTTPTestAPI.with { api in
            for path in ["/", "/v2/locks", "/v1/locks/a/b", "/v1/locks/a/renew/", "/v1//locks"] {
                let missing = try await api.client.send("GET", path)
                #expect(missing.status == 404, "\(path)")
                #expect(missing.text("code") == "unknown_path")
            }
            let refusal = try await api.client.send("PATCH", "/v1/locks/a")
            #expect(refusal.status == 405)
            #expect(refusal.headers["allow"] == "POST, GET, HEAD, DELETE")
            #expect(refusal.text("code") == "method_not_allowed")
            let head = try await api.client.send("HEAD", "/healthz")
            #expect(head.status == 200)
            #expect(head.body.isEmpty)
        }
    }

    @Test("Browsers are redirected to the console from /, and all clients from /console/")
    func redirectsToConsole() async throws {
        try await HTTPTestAPI.with { api in
            let browser = ["Accept": "text/html,application/xhtml+xml,*/*;q=0.8"]
            let requests: [(path: String, headers: [String: String])] = [
                ("/", browser), ("/console/", browser), ("/console/", [:]),
            ]
            for request in requests {
                for method in ["GET", "HEAD"] {
                    let redirect = try await api.client.send(method, request.path, headers: request.headers)
                    #expect(redirect.status == 303, "\(request)")
                    #expect(redirect.headers["location"] == "/console")
                }
            }
            try await api.expect(404, "GET", "/", headers: ["Accept": "application/json"])
            try await api.expect(404, "POST", "/", headers: browser)
        }
    }

    @Test("The error for a missing lease token names it")
    func missingToken() async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("DELETE", "/v1/locks/a")
            #expect(refusal.status == 400)
            #expect(refusal.text("detail")?.contains("Lease-Token") == true)
        }
    }

    @Test("If keys are configured, every request except a health check needs one")
    func keys() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            for path in ["/v1/services", "/v1/events", "/metrics", "/openapi.yaml", "/v1/locks/a"] {
                for key in [[:], ["X-Api-Key": "wrong"], ["Authorization": "Basic web-secret"], ["Authorization": "Bearer"]] {
                    let refusal = try await api.client.send("GET", path, headers: key)
                    #expect(refusal.status == 401)
                    #expect(refusal.headers["www-authenticate"] == "Bearer realm=\"interlock\"")
                    #expect(!refusal.body.contains("wrong"))
                }
            }
            for key in [
                ["X-Api-Key": "web-secret"], ["Authorization": "Bearer web-secret"], ["Authorization": "bearer  web-secret"],
            ] {
                try await api.expect(200, "GET", "/v1/services", headers: key)
            }
            try await api.expect(200, "GET", "/healthz")
            try await api.expect(200, "GET", "/readyz")
        }
    }

    @Test("The errors for a missing and an unknown API key differ", arguments: ["/v1/services", "/proxy/shop/a"])
    func missingOrUnknownKey(path: String) async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            let missing = try await api.client.send("GET", path)
            #expect(missing.text("detail")?.hasPrefix("send an API key as X-Api-Key: KEY") == true, "\(missing.body)")
            let unknown = try await api.client.send("GET", path, headers: ["X-Api-Key": "wrong"])
            #expect(unknown.text("detail")?.hasPrefix("unknown API key") == true, "\(unknown.body)")
            for refused in [missing, unknown] {
                #expect(refused.status == 401)
                #expect(refused.text("code") == "unauthenticated")
            }
        }
    }

    @Test("With keys, Host may be an address, localhost, this host's name or one of listen.hosts")
    func hosts() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web], hosts: ["Sidecar.internal"]) { api in
            for host in [
                "127.0.0.1", "10.1.2.3:80", "[::1]:7380", "localhost", "LOCALHOST:1", "localhost.", "sidecar.INTERNAL:9",
            ] {
                try await api.expect(200, "GET", "/healthz", headers: ["Host": host])
            }
            for host in ["evil.example", "localhost.evil.example:7380", "127.0.0.1.nip.io", "", "a:b:c"] {
                let refusal = try await api.client.send("GET", "/healthz", headers: ["Host": host])
                #expect(refusal.status == 421, "\(host)")
                #expect(refusal.text("code") == "misdirected")
            }
        }
    }

    @Test("Without keys, Host must be a loopback address or name, or one of listen.hosts")
    func hostsWithoutKeys() async throws {
        try await HTTPTestAPI.with(hosts: ["Sidecar.internal", "10.9.8.7"]) { api in
            for host in [
                "127.0.0.1", "127.1.2.3:80", "[::1]:7380", "localhost", "LOCALHOST:1", "localhost.", "sidecar.INTERNAL:9",
                "10.9.8.7:7380",
            ] {
                try await api.expect(200, "GET", "/healthz", headers: ["Host": host])
            }
            let name = InterlockConfiguration.hostName
            for host in [
                "0.0.0.0:7380", "[::]:7380", "10.1.2.3", "[::ffff:127.0.0.1]", "[fe80::1]", "0", "127.1", name,
                "\(name):7380", "evil.example",
            ] {
                let refusal = try await api.client.send("GET", "/v1/check/catalog?cost=2", headers: ["Host": host])
                #expect(refusal.status == 421, "\(host)")
                #expect(refusal.text("code") == "misdirected")
            }
            // The rejected requests did not use the limit.
            try await api.expect(200, "POST", "/v1/limits/catalog/take", #"{"cost": 2}"#)
        }
    }

    @Test("A web page of another origin is refused")
    func webPageOfAnotherOriginIsRefused() async throws {
        try await HTTPTestAPI.with { api in
            let sameOrigin = "http://127.0.0.1:\(api.client.port)"
            for headers in [["Origin": sameOrigin], ["Sec-Fetch-Site": "same-origin"], ["Sec-Fetch-Site": "none"]] {
                try await api.expect(200, "GET", "/v1/services", headers: headers)
            }
            let otherOrigins = [
                ["Origin": "http://evil.example"], ["Origin": "null"], ["Origin": "http://127.0.0.1:1"],
                ["Sec-Fetch-Site": "cross-site"], ["Sec-Fetch-Site": "same-site"],
            ]
            for headers in otherOrigins {
                let refusal = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 5000}"#, headers: headers)
                #expect(refusal.status == 403, "\(headers)")
                #expect(refusal.text("code") == "foreign_origin")
            }
        }
    }

    @Test(
        "A refusal before the body is read closes the connection",
        arguments: ["Connection: Close\r\n", "Connection: keep-alive, close\r\n", "Content-Length: 100000000\r\n"])
    func endsConnection(field: String) async throws {
        let keys = [APIKey(name: "web", secret: "correct-horse-battery-staple", role: .use)]
        try await HTTPTestAPI.with(keys: keys, idleTimeout: .seconds(600)) { api in
            // The call returns when the listener closes the connection.
            let response = try await RawConnection.exchange(
                port: api.client.port, "POST /v1/locks/orders HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n")
            #expect(response.hasPrefix("HTTP/1.1 401 "))
        }
    }

    /// Returns the number of bytes that a connection accepts until it is closed.
    private static func acceptedBytes(_ port: Int, _ head: String, of total: Int) async throws -> Int {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.socketOption(.so_sndbuf), value: 64 * 1024)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .connect(host: "127.0.0.1", port: port).get()
        try await channel.writeAndFlush(ByteBuffer(string: head))
        let piece = ByteBuffer(repeating: 0x20, count: 64 * 1024)
        var acceptedByteCount = 0
        while acceptedByteCount < total {
            do {
                try await channel.writeAndFlush(piece)
            } catch {
                break
            }
            acceptedByteCount += piece.readableBytes
        }
        try? await channel.close()
        return acceptedByteCount
    }

    @Test(
        "Only a limited part of an unwanted body or of other bytes is read before the connection closes",
        arguments: [
            "GET  HTTP\r\n",
            "POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\n",
            "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: web-secret\r\n",
            "POST /v1/locks/a HTTP/1.1\r\nHost: evil.example\r\n",
            "POST /v1/locks/a HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: web-secret\r\n",
        ])
    func unwantedBody(head: String) async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            let total = 64 << 20
            let acceptedByteCount = try await Self.acceptedBytes(
                api.client.port, head + "Content-Length: \(total)\r\n\r\n", of: total)
            // The limit is 64 KiB, plus the bytes in socket buffers.
            #expect(acceptedByteCount < 12 << 20, "\(acceptedByteCount)")
        }
    }

    @Test("Only a limited part of a body that the upstream rejected is read before the connection closes")
    func unwantedByUpstream() async throws {
        try await ProxyTestAPI.with(upstream: { call in
            try await call.answer("413 Content Too Large", ["Connection: close"], "no")
            throw TestUpstream.Close()
        }) { proxy in
            let total = 64 << 20
            let head = "POST /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(total)\r\n\r\n"
            let acceptedByteCount = try await Self.acceptedBytes(proxy.client.port, head, of: total)
            #expect(acceptedByteCount < 12 << 20, "\(acceptedByteCount)")
        }
    }
}

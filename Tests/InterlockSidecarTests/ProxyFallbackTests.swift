import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import Testing

@Suite("Proxy: fallbacks")
struct ProxyFallbackTests {
    private static let fixed: @Sendable (inout ServiceDefinition) -> Void = {
        $0.upstream?.fallback = .fixed(status: 203, body: #"{"items": []}"#, mediaType: "application/json")
    }
    private static let lastGood: @Sendable (inout ServiceDefinition) -> Void = {
        $0.upstream?.fallback = .lastGood(maximumAge: .seconds(300))
    }

    private static func open(_ proxy: ProxyTestAPI) async throws {
        _ = try await proxy.api.coordinator.forceBreaker(service: "shop", to: .open, by: "test")
    }

    @Test("A refused call gets the fixed response, which is marked as a fallback")
    func refusedCallGetsFixedResponse() async throws {
        try await ProxyTestAPI.with(configure: Self.fixed, upstream: { try await $0.answer("200 OK", [], "ok") }) { proxy in
            let real = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(real.body == "ok")
            #expect(real.headers["interlock-fallback"] == nil)
            try await Self.open(proxy)
            let fallback = try await proxy.client.send("POST", "/proxy/shop/a", "x")
            #expect(fallback.status == 203)
            #expect(fallback.body == #"{"items": []}"#)
            #expect(fallback.headers["content-type"] == "application/json")
            #expect(fallback.headers["interlock-fallback"] == "fixed")
            #expect(fallback.headers["interlock-state"] == "open")
            let head = try await proxy.client.send("HEAD", "/proxy/shop/a")
            #expect(head.status == 203)
            #expect(head.body.isEmpty)
        }
    }

    @Test("A failed call gets the fixed response, and an upstream's own error is forwarded")
    func failedCallGetsFixedResponse() async throws {
        let upstream: TestUpstream.Handler = { call in
            guard call.request.hasSuffix("/error") else { throw TestUpstream.Close() }
            try await call.answer("500 Internal Server Error", [], "broken")
        }
        try await ProxyTestAPI.with(configure: Self.fixed, upstream: upstream) { proxy in
            try await proxy.api.expect(203, "POST", "/proxy/shop/a")
            #expect(try await proxy.client.send("GET", "/proxy/shop/error").body == "broken")
        }
    }

    @Test("The last good response to the same GET is sent with its age")
    func lastGoodAnswer() async throws {
        let isDown = NIOLockedValueBox(false)
        let upstream: TestUpstream.Handler = { call in
            if isDown.withLockedValue({ $0 }) { throw TestUpstream.Close() }
            try await call.answer("200 OK", ["Content-Type: text/x", "X-A: 1"], "good of \(call.request)")
        }
        try await ProxyTestAPI.with(configure: Self.lastGood, upstream: upstream) { proxy in
            let good = try await proxy.client.send("GET", "/proxy/shop/a?b=1")
            isDown.withLockedValue { $0 = true }
            let kept = try await proxy.client.send("GET", "/proxy/shop/a?b=1")
            #expect(kept.status == 200)
            #expect(kept.body == good.body)
            #expect(kept.headers["content-type"] == "text/x")
            #expect(kept.headers["x-a"] == "1")
            #expect(kept.headers["interlock-fallback"]?.hasPrefix("last-good; age=") == true)
            #expect(kept.headers["age"].flatMap { Int($0) } != nil)
            #expect(kept.headers["content-length"] == "\(good.body.utf8.count)")
            try await proxy.api.expect(502, "GET", "/proxy/shop/a?b=2")
            try await proxy.api.expect(502, "POST", "/proxy/shop/a?b=1")
            try await proxy.api.expect(502, "GET", "/proxy/shop/a?b=1", headers: ["Authorization": "Bearer x"])
        }
    }

    @Test("A service's 256 kept responses do not displace those of another")
    func servicesKeepResponsesSeparately() async throws {
        let upstream: TestUpstream.Handler = { try await $0.answer("200 OK", [], "good") }
        try await TestUpstream.with(upstream) { upstream in
            let services = ["shop", "cart"].map { name in
                var service = ServiceDefinition(name: name, upstream: UpstreamSettings(url: "http://127.0.0.1:\(upstream.port)"))
                Self.lastGood(&service)
                return service
            }
            try await HTTPTestAPI.with(services: services) { api in
                try await api.expect(200, "GET", "/proxy/cart/0")
                for number in 0...256 { try await api.expect(200, "GET", "/proxy/shop/\(number)") }
                for service in services {
                    _ = try await api.coordinator.forceBreaker(service: service.name, to: .open, by: "test")
                }
                try await api.expect(200, "GET", "/proxy/cart/0")
                try await api.expect(503, "GET", "/proxy/shop/0")
                for number in 1...256 { try await api.expect(200, "GET", "/proxy/shop/\(number)") }
            }
        }
    }

    @Test("A response to one caller is not sent to others")
    func responseToOneCallerIsNotSentToOthers() async throws {
        try await ProxyTestAPI.with(configure: Self.lastGood, upstream: { try await $0.answer("200 OK", [], "mine") }) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a", headers: ["Cookie": "session=1"])
            try await Self.open(proxy)
            try await proxy.api.expect(503, "GET", "/proxy/shop/a")
        }
    }

    @Test("A streamed response is also kept, unless it is too large", arguments: [(100_000, 200), (300_000, 503)])
    func streamedResponseIsKept(size: Int, status: Int) async throws {
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in 0..<(size / 1000) { try await call.send("3e8\r\n" + String(repeating: "x", count: 1000) + "\r\n") }
            try await call.send("0\r\n\r\n")
        }
        try await ProxyTestAPI.with(configure: Self.lastGood, upstream: upstream) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            try await Self.open(proxy)
            let kept = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(kept.status == status)
            if status == 200 { #expect(kept.body.utf8.count == size) }
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import SidecarSettings
import Testing

@Suite("Proxy: failed calls and retries")
struct ProxyRetryTests {
    /// Returns a handler that fails `count` calls and answers all later ones.
    private static func failing(
        _ count: Int, by failure: @escaping @Sendable (TestUpstream.Call) async throws -> Void
    ) -> TestUpstream.Handler {
        let failures = Failures(count)
        return { call in
            if failures.take() { try await failure(call) } else { try await call.answer("200 OK", [], "ok") }
        }
    }

    private final class Failures: Sendable {
        private let remaining: NIOLockedValueBox<Int>

        init(_ count: Int) {
            remaining = NIOLockedValueBox(count)
        }

        func take() -> Bool {
            remaining.withLockedValue { remaining in
                remaining -= 1
                return remaining >= 0
            }
        }
    }

    private static func retries(_ attempts: Int, perSecond: Int = 100) -> (inout ServiceDefinition) -> Void {
        { $0.upstream?.retries = RetrySettings(attempts: attempts, minimumPerSecond: perSecond) }
    }

    private static let close: @Sendable (TestUpstream.Call) async throws -> Void = { _ in throw TestUpstream.Close() }

    @Test(
        "An idempotent call whose connection ends before a response is retried",
        arguments: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
    func closed(method: String) async throws {
        try await ProxyTestAPI.with(configure: Self.retries(1), upstream: Self.failing(1, by: Self.close)) { proxy in
            try await proxy.api.expect(200, method, "/proxy/shop/a")
            #expect(proxy.upstream.received.count == 2)
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test(
        "A call with a body or possible side effects is sent once",
        arguments: [("POST", ""), ("PATCH", ""), ("PUT", "body"), ("GET", "body")])
    func once(method: String, body: String) async throws {
        try await ProxyTestAPI.with(configure: Self.retries(3), upstream: Self.failing(1, by: Self.close)) { proxy in
            let failure = try await proxy.client.send(method, "/proxy/shop/a", body)
            #expect(failure.status == 502)
            #expect(failure.text("code") == "upstream_failed")
            #expect(failure.text("cause") == "closed")
            #expect(failure.headers["interlock-service"] == "shop")
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("The number of attempts is limited")
    func numberOfAttemptsIsLimited() async throws {
        try await ProxyTestAPI.with(configure: Self.retries(2), upstream: Self.failing(9, by: Self.close)) { proxy in
            try await proxy.api.expect(502, "GET", "/proxy/shop/a")
            #expect(proxy.upstream.received.count == 3)
        }
    }

    @Test("Without a budget there is no retry")
    func budget() async throws {
        try await ProxyTestAPI.with(configure: Self.retries(3, perSecond: 0), upstream: Self.failing(1, by: Self.close)) {
            proxy in
            try await proxy.api.expect(502, "GET", "/proxy/shop/a")
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("A retry needs its own permit")
    func retryNeedsItsOwnPermit() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            Self.retries(1)(&$0)
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60))]
        }
        try await ProxyTestAPI.with(configure: configure, upstream: Self.failing(1, by: Self.close)) { proxy in
            try await proxy.api.expect(502, "GET", "/proxy/shop/a")
            #expect(proxy.upstream.received.count == 1)
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test(
        "A call to a briefly unreachable upstream is retried",
        arguments: ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
    func callToBrieflyUnreachableUpstreamIsRetried(status: String) async throws {
        let upstream = Self.failing(1) { try await $0.answer(status, [], "not now") }
        try await ProxyTestAPI.with(configure: Self.retries(1), upstream: upstream) { proxy in
            #expect(try await proxy.client.send("GET", "/proxy/shop/a").body == "ok")
            #expect(proxy.upstream.received.count == 2)
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("If a retry does not get a permit, the first response is relayed")
    func firstAnswer() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            Self.retries(1)(&$0)
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60))]
        }
        let upstream = Self.failing(1) { try await $0.answer("503 Service Unavailable", [], "not now") }
        try await ProxyTestAPI.with(configure: configure, upstream: upstream) { proxy in
            let reply = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(reply.status == 503)
            #expect(reply.body == "not now")
        }
    }

    @Test("A first response relayed because its retry does not get a permit ends when its client disconnects")
    func firstAnswerAbandoned() async throws {
        let isClosed = NIOLockedValueBox(false)
        let configure: (inout ServiceDefinition) -> Void = {
            Self.retries(1)(&$0)
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60))]
        }
        let upstream: TestUpstream.Handler = { call in
            defer { isClosed.withLockedValue { $0 = true } }
            try await call.send("HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(configure: configure, upstream: upstream) { proxy in
            try await proxy.client.follow("GET", "/proxy/shop/a") { $0.contains("hello") }
            try await eventually("the upstream connection is closed") { isClosed.withLockedValue { $0 } }
        }
    }

    @Test(
        "An upstream's Retry-After is respected",
        arguments: ["429 Too Many Requests", "503 Service Unavailable"])
    func upstreamRetryAfterIsRespected(status: String) async throws {
        let upstream = Self.failing(1) { try await $0.answer(status, ["Retry-After: 7"], "later") }
        try await ProxyTestAPI.with(configure: Self.retries(3), upstream: upstream) { proxy in
            let reply = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(status.hasPrefix("\(reply.status)"))
            #expect(reply.headers["retry-after"] == "7")
            #expect(reply.body == "later")
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("A closed port fails the connection")
    func refusedConnection() async throws {
        let unreachable: (inout ServiceDefinition) -> Void = { $0.upstream?.url = "http://127.0.0.1:1" }
        try await ProxyTestAPI.with(configure: unreachable, upstream: { _ in }) { proxy in
            let failure = try await proxy.client.send("POST", "/proxy/shop/a")
            #expect(failure.status == 502)
            #expect(failure.text("cause") == "connect")
            #expect(failure.text("detail") == "the service \"shop\" is unreachable: http://127.0.0.1:1 refuses connections")
            let uploaded = try await proxy.client.send("POST", "/proxy/shop/a", "body")
            #expect(uploaded.status == 502)
            #expect(uploaded.text("cause") == "connect")
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test(
        "The address of an unreachable upstream is shown to admins only",
        arguments: [(HTTPTestAPI.web, false), (HTTPTestAPI.ops, true)] as [(APIKey, Bool)])
    func addressOfUpstream(key: APIKey, isShown: Bool) async throws {
        let unreachable: (inout ServiceDefinition) -> Void = { $0.upstream?.url = "http://127.0.0.1:1" }
        try await ProxyTestAPI.with(keys: [HTTPTestAPI.web, HTTPTestAPI.ops], configure: unreachable, upstream: { _ in }) {
            proxy in
            let failure = try await proxy.client.send("POST", "/proxy/shop/a", headers: ["X-Api-Key": key.secret])
            #expect(failure.status == 502)
            #expect(failure.text("detail")?.contains("127.0.0.1:1") == isShown, "\(failure.body)")
        }
    }

    @Test("An https:// upstream without TLS does not get a request")
    func noTLS() async throws {
        let secure: (inout ServiceDefinition) -> Void = { service in
            service.upstream = service.upstream.map { UpstreamSettings(url: $0.url.replacing("http://", with: "https://")) }
        }
        let upstream: TestUpstream.Handler = { try await $0.answer("200 OK") }
        try await ProxyTestAPI.with(configure: secure, upstream: upstream) { proxy in
            let failure = try await proxy.client.send("GET", "/proxy/shop/a", headers: ["Authorization": "secret"])
            #expect([502, 504].contains(failure.status))
            #expect(proxy.upstream.received.isEmpty)
        }
    }

    @Test("A response that does not begin in time is abandoned", arguments: ["", "body"])
    func firstByte(body: String) async throws {
        let isDisconnected = NIOLockedValueBox(false)
        let upstream: TestUpstream.Handler = { call in
            while try await call.nextBytes() != nil {}
            isDisconnected.withLockedValue { $0 = true }
            throw TestUpstream.Close()
        }
        let shortTimeout: (inout ServiceDefinition) -> Void = { $0.upstream?.firstByteTimeout = .milliseconds(100) }
        try await ProxyTestAPI.with(configure: shortTimeout, upstream: upstream) { proxy in
            let failure = try await proxy.client.send("GET", "/proxy/shop/a", body)
            #expect(failure.status == 504)
            #expect(failure.text("code") == "upstream_timeout")
            #expect(failure.text("cause") == "first_byte_timeout")
            try await eventually("the upstream connection is closed") { isDisconnected.withLockedValue { $0 } }
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("A call that takes too long is abandoned, even while data flows")
    func overlongCallIsAbandoned() async throws {
        let upstream: TestUpstream.Handler = { call in
            if call.request.hasSuffix("/silent") {
                while try await call.nextBytes() != nil {}
                throw TestUpstream.Close()
            }
            try await call.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        let shortTimeout: (inout ServiceDefinition) -> Void = { $0.upstream?.totalTimeout = .seconds(2) }
        try await ProxyTestAPI.with(configure: shortTimeout, upstream: upstream) { proxy in
            let silent = try await proxy.client.send("GET", "/proxy/shop/silent")
            #expect(silent.status == 504)
            #expect(silent.text("cause") == "total_timeout")
            let endless = try await proxy.client.send("GET", "/proxy/shop/endless")
            #expect(endless.status == 200)
            #expect(endless.headers["content-length"] == "100")
            #expect(endless.body == "beginning")
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A call that spent most of its time waiting says nothing about its service")
    func rest() async throws {
        let upstream: TestUpstream.Handler = { call in
            guard call.request.hasSuffix("/silent") else { return try await call.answer("200 OK", [], "ok") }
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.totalTimeout = .milliseconds(2000)
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .milliseconds(1700))]
            $0.onLimit = LimitPolicy(action: .wait)
            $0.breaker = BreakerSettings(minimumCalls: 1)
        }
        try await ProxyTestAPI.with(configure: configure, upstream: upstream) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/ok")
            let silent = try await proxy.client.send("GET", "/proxy/shop/silent")
            #expect(silent.status == 504)
            #expect(silent.text("cause") == "total_timeout")
            try await proxy.waitUntilOutcomesReported()
            try await proxy.api.expect(200, "GET", "/proxy/shop/ok")
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import Testing

@Suite("Proxy: refused calls")
struct ProxyRefusalTests {
    private static let ok: TestUpstream.Handler = { try await $0.answer("200 OK", [], "ok") }

    private static func limited(_ limit: Int64, per window: Duration, _ policy: LimitPolicy = LimitPolicy()) -> (
        inout ServiceDefinition
    ) -> Void {
        {
            $0.limits = [LimitDefinition(name: "w", limit: limit, window: window)]
            $0.onLimit = policy
        }
    }

    @Test("A call beyond the limit is refused with the reason and a time to retry")
    func limit() async throws {
        try await ProxyTestAPI.with(configure: Self.limited(1, per: .seconds(60)), upstream: Self.ok) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            let refusal = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(refusal.status == 429)
            #expect(refusal.headers["content-type"] == "application/problem+json")
            #expect(refusal.text("code") == "limited")
            #expect(refusal.text("reason") == "limited")
            #expect(refusal.text("cause") == "limit")
            #expect(refusal.text("name") == "w")
            let wait = try #require(refusal.integer("retry_after_ms"))
            #expect(refusal.headers["retry-after"] == "\((wait + 999) / 1000)")
            #expect(refusal.headers["ratelimit-policy"] == #""w";q=1;w=60"#)
            #expect(refusal.headers["ratelimit"]?.hasPrefix(#""w";r=0;t="#) == true)
            #expect(refusal.headers["interlock-service"] == "shop")
            #expect(refusal.headers["interlock-state"] == "closed")
            #expect(refusal.headers["interlock-waited"] != nil)
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("A refusal does not name the limit if the service has several")
    func severalLimits() async throws {
        let limits: (inout ServiceDefinition) -> Void = {
            $0.limits = [
                LimitDefinition(name: "1m", limit: 1, window: .seconds(60)),
                LimitDefinition(name: "1h", limit: 1, window: .seconds(3600)),
            ]
        }
        try await ProxyTestAPI.with(configure: limits, upstream: Self.ok) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            let refusal = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(refusal.status == 429)
            #expect(refusal.text("name") == nil)
        }
    }

    @Test("Each subject has its own quota")
    func eachSubjectHasItsOwnQuota() async throws {
        let perSubject: (inout ServiceDefinition) -> Void = {
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60), isPerSubject: true)]
        }
        try await ProxyTestAPI.with(configure: perSubject, upstream: Self.ok) { proxy in
            for subject in ["alice", "bob"] {
                try await proxy.api.expect(200, "GET", "/proxy/shop/a", headers: ["Interlock-Subject": subject])
                try await proxy.api.expect(429, "GET", "/proxy/shop/a", headers: ["Interlock-Subject": subject])
            }
            try await proxy.api.expect(400, "GET", "/proxy/shop/a", headers: ["Interlock-Subject": "a b"])
        }
    }

    @Test("An open breaker refuses calls and says what opened it")
    func open() async throws {
        try await ProxyTestAPI.with(upstream: Self.ok) { proxy in
            _ = try await proxy.api.coordinator.forceBreaker(service: "shop", to: .open, by: "test")
            let refusal = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(refusal.status == 503)
            #expect(refusal.text("code") == "open")
            #expect(refusal.text("state") == "open")
            #expect(refusal.text("cause") == "forced")
            #expect(refusal.headers["retry-after"] != nil)
            #expect(refusal.headers["interlock-state"] == "open")
            #expect(proxy.upstream.received.isEmpty)
        }
    }

    @Test("A call to a service with on_limit: wait waits, and the response reports how long")
    func callWaitsForLimitAndReportsWait() async throws {
        let policy = LimitPolicy(action: .wait, maximumWait: .seconds(30))
        try await ProxyTestAPI.with(configure: Self.limited(1, per: .milliseconds(200), policy), upstream: Self.ok) { proxy in
            var waited: [Int] = []
            for _ in 0..<4 {
                let reply = try await proxy.client.send("GET", "/proxy/shop/a")
                #expect(reply.status == 200)
                waited.append(reply.headers["interlock-waited"].flatMap { Int($0) } ?? -1)
            }
            #expect(waited.max() ?? 0 > 20)
        }
    }

    @Test("A call that waits longer than on_limit.patience is refused")
    func maximumWait() async throws {
        let policy = LimitPolicy(action: .wait, maximumWait: .milliseconds(50))
        try await ProxyTestAPI.with(configure: Self.limited(1, per: .seconds(60), policy), upstream: Self.ok) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            try await proxy.api.expect(429, "GET", "/proxy/shop/a")
        }
    }

    @Test("A changed URL takes effect immediately, without interrupting active calls")
    func changedURLTakesEffectImmediately() async throws {
        try await TestUpstream.with({ try await $0.answer("200 OK", [], "new") }) { other in
            let url = "http://127.0.0.1:\(other.port)"
            try await ProxyTestAPI.with(upstream: Self.ok) { proxy in
                #expect(try await proxy.client.send("GET", "/proxy/shop/a").body == "ok")
                let moved = ServiceDefinition(name: "shop", upstream: UpstreamSettings(url: url))
                try await proxy.api.coordinator.reload(services: [moved])
                #expect(try await proxy.client.send("GET", "/proxy/shop/a").body == "new")
                try await proxy.api.coordinator.reload(services: [])
                try await proxy.api.expect(404, "GET", "/proxy/shop/a")
            }
        }
    }

    @Test(
        "Removing a service or its URL also removes its latencies",
        arguments: [[], [ServiceDefinition(name: "shop")]])
    func removingServiceOrURLRemovesLatencies(services: [ServiceDefinition]) async throws {
        let series = #"interlock_proxy_request_seconds_count{service="shop"}"#
        try await ProxyTestAPI.with(upstream: Self.ok) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            #expect(try await proxy.client.send("GET", "/metrics").body.contains(series))
            try await proxy.api.coordinator.reload(services: services)
            #expect(try await !proxy.client.send("GET", "/metrics").body.contains(series))
        }
    }
}

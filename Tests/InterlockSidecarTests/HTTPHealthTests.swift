import Interlock
import InterlockCore
import InterlockProcesses
import Testing

@testable import SidecarListeners

@Suite("HTTP API: health and metrics")
struct HTTPHealthTests {
    @Test("Without Redis the sidecar is live but not ready, and answers unavailable")
    func redisIsUnreachable() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(200, "GET", "/readyz")
            await api.redis.kill()
            try await eventually("the sidecar is not ready") { try await api.client.send("GET", "/readyz").status == 503 }
            try await api.expect(200, "GET", "/healthz")
            let refusal = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 5000}"#)
            #expect(refusal.status == 503)
            #expect(refusal.text("code") == "unavailable")
            #expect(refusal.headers["retry-after"] == "1")
            #expect(refusal.headers["content-type"] == "application/problem+json")
        }
    }

    @Test("A waiting request is answered when the sidecar shuts down")
    func shutdownAnswersWaiters() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/a", #"{"ttl_ms": 60000}"#)
            async let waiter = api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 60000, "wait_ms": 60000}"#)
            try await eventually("a call waits") { try await api.coordinator.inspectLock(ResourceName("a"))?.waiters == 1 }
            await api.shutDown()
            let response = try await waiter
            #expect(response.status == 503)
            #expect(response.text("code") == "unavailable")
        }
    }

    @Test("Requests are counted by route")
    func requestsAreCountedByRoute() async throws {
        try await HTTPTestAPI.with { api in
            _ = try await api.client.send("GET", "/v1/locks/a%2Fb")
            let metrics = try await api.client.send("GET", "/metrics")
            #expect(metrics.status == 200)
            #expect(metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
            let line = #"interlock_http_requests_total{method="GET",route="/v1/locks/{name}",status="4xx"} 1"#
            #expect(metrics.body.contains(line + "\n"))
        }
    }

    @Test("A connection serves many requests, and pipelined ones in order")
    func keepAlive() async throws {
        try await HTTPTestAPI.with { api in
            let port = api.client.port
            let first = HTTPTestClient.request("GET", "/healthz", nil, headers: [:], port: port, closing: false)
            let second = HTTPTestClient.request("GET", "/nothing", nil, headers: [:], port: port, closing: true)
            let responses = try await api.client.exchange(first + second)
            let statuses = responses.split(separator: "HTTP/1.1 ").map { $0.prefix(3) }
            #expect(statuses == ["200", "404"])
        }
    }

    @Test(
        "Dates follow RFC 9110",
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"), (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        ] as [(Int64, String)])
    func datesFollowRFC9110(second: Int64, text: String) {
        #expect(HTTPDate.text(second: second) == text)
    }
}

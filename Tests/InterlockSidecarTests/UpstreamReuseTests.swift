import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import SidecarSettings

@Suite("Proxy: reused upstream connections", .timeLimit(.minutes(1)))
struct UpstreamReuseTests {
    /// Returns the settings of a service with these lines in its file.
    private static func settings(_ yaml: String) throws -> UpstreamSettings {
        try #require(configuration("services:\n  a:\n    url: http://h\n    \(yaml)").services.first?.upstream)
    }

    private static func expectNoFailure(_ proxy: ProxyTestAPI) async throws {
        try await proxy.waitUntilOutcomesReported()
        let breaker = try await proxy.api.coordinator.breaker(service: "shop")
        #expect(breaker.state == .closed && breaker.fleet.trips == 0)
    }

    private static func openAfterOneFailure(_ service: inout ServiceDefinition) {
        service.upstream?.retries.attempts = 0
        service.breaker = BreakerSettings(minimumCalls: 1)
    }

    /// Answers every request except those numbered in `requests`, for which it closes the connection without a byte.
    private static func closing(at requests: Set<Int> = [2]) -> TestUpstream.Handler {
        let count = NIOLockedValueBox(0)
        return { call in
            let number = count.withLockedValue { count in
                count += 1
                return count
            }
            if requests.contains(number) { throw TestUpstream.Close() }
            if let length = call.values("content-length").first.flatMap({ Int($0) }) {
                var received = 0
                while received < length, let nextBytes = try await call.nextBytes() { received += nextBytes.readableBytes }
            }
            try await call.answer("200 OK", [], "\(number)")
        }
    }

    @Test(
        "An idempotent call on a reused connection that ends without a byte is sent again on another one",
        arguments: [("GET", nil), ("PUT", "body"), ("DELETE", nil)] as [(String, String?)])
    func resent(method: String, body: String?) async throws {
        try await ProxyTestAPI.with(configure: Self.openAfterOneFailure, upstream: Self.closing()) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            let second = try await proxy.client.send(method, "/proxy/shop/a", body)
            #expect(second.status == 200 && second.body == "3", "\(second)")
            #expect(proxy.upstream.connectionCount == 2)
            try await Self.expectNoFailure(proxy)
        }
    }

    @Test("A call with possible side effects is not sent again, and does not count as a failure of the service")
    func callWithSideEffectsIsNotRetried() async throws {
        try await ProxyTestAPI.with(configure: Self.openAfterOneFailure, upstream: Self.closing()) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            try await proxy.api.expect(502, "POST", "/proxy/shop/a", "body")
            #expect(proxy.upstream.received.count == 2)
            try await Self.expectNoFailure(proxy)
        }
    }

    @Test("A new connection that ends without a byte is a failure of the service")
    func fresh() async throws {
        try await ProxyTestAPI.with(configure: Self.openAfterOneFailure, upstream: Self.closing(at: [1])) { proxy in
            try await proxy.api.expect(502, "GET", "/proxy/shop/a")
            let coordinator = proxy.api.coordinator
            try await eventually("the failure is counted") { try await coordinator.breaker(service: "shop").state == .open }
            #expect(proxy.upstream.received.count == 1)
        }
    }

    @Test("A server with a keep-alive timeout of zero gets a new connection for each request")
    func keepAlive() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK", ["Keep-Alive: max=5, Timeout = 0"]) }) { proxy in
            for _ in 0..<3 { try await proxy.api.expect(200, "GET", "/proxy/shop/a") }
            #expect(proxy.upstream.connectionCount == 3)
        }
    }

    @Test("An unused connection is closed after the configured time")
    func unusedConnectionIsClosedAfterConfiguredTime() async throws {
        let idle = try Self.settings("connections: { idle: 50ms }")
        let isClosed = NIOLockedValueBox(false)
        try await ProxyTestAPI.with(
            configure: { service in
                let url = service.upstream?.url ?? ""
                service.upstream = idle
                service.upstream?.url = url
            },
            upstream: { call in
                try await call.answer("200 OK")
                // The connection closes far earlier than by default.
                while try await call.nextBytes() != nil {}
                isClosed.withLockedValue { $0 = true }
                throw TestUpstream.Close()
            }
        ) { proxy in
            try await proxy.api.expect(200, "GET", "/proxy/shop/a")
            try await eventually(within: .seconds(3), "the connection is closed") { isClosed.withLockedValue { $0 } }
        }
    }

    @Test("Under steady traffic no connection is kept beyond its maximum age")
    func age() async throws {
        let shortLived = try Self.settings("connections: { max_age: 20ms }")
        try await ProxyTestAPI.with(
            configure: { service in
                let url = service.upstream?.url ?? ""
                service.upstream = shortLived
                service.upstream?.url = url
            },
            upstream: { try await $0.answer("200 OK") }
        ) { proxy in
            try await eventually("another connection is opened") {
                try await proxy.api.expect(200, "GET", "/proxy/shop/a")
                return proxy.upstream.connectionCount > 2
            }
        }
    }

    @Test("Under steady traffic no HTTP/2 connection gets requests beyond its maximum age")
    func agedHTTP2ConnectionGetsNoRequests() async throws {
        var shortLived = try Self.settings("connections: { max_age: 20ms }")
        shortLived.speaksHTTP2 = true
        let reply: ScriptedHTTP2Server.Reply = { _, frame in
            frame.endsStream ? [ScriptedHTTP2Server.answer(frame.stream)] : []
        }
        try await ScriptedHTTP2Server.with(reply) { [shortLived] server in
            var service = ServiceDefinition(name: "shop", upstream: shortLived)
            service.upstream?.url = "http://127.0.0.1:\(server.port)"
            try await HTTPTestAPI.with(services: [service]) { api in
                try await eventually("another connection is opened") {
                    try await api.expect(200, "GET", "/proxy/shop/a")
                    return server.connections.withLockedValue { $0 > 2 }
                }
            }
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import NIOCore
import Testing

@testable import SidecarSettings

/// A timeout counts against a service only if the service caused it.
@Suite("Proxy: which timeouts count as failures", .timeLimit(.minutes(2)))
struct ProxyTimerTests {
    private static func serviceChange(_ yaml: String, _ breaker: BreakerSettings) throws -> (inout ServiceDefinition) -> Void {
        let settings = try configuration("services:\n  a:\n    url: http://h\n    \(yaml)").services.first?.upstream
        return { service in
            let url = service.upstream?.url ?? ""
            service.upstream = settings
            service.upstream?.url = url
            service.breaker = breaker
        }
    }

    private static let opensAfterOneFailure = BreakerSettings(minimumCalls: 1)

    /// Responds with an endless stream that has an event every 10 ms.
    private static let stream: TestUpstream.Handler = { call in
        try await call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        while true {
            try await call.send("9\r\ndata: x\n\n\r\n")
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    private static func get(_ proxy: ProxyTestAPI) -> String {
        HTTPTestClient.request("GET", "/proxy/shop/a", nil, headers: [:], port: proxy.client.port, closing: true)
    }

    @Test("A stream that timeouts.total ends while data flows is not a failure of its service")
    func healthyStream() async throws {
        let configure = try Self.serviceChange("timeouts: { total: 300ms }", Self.opensAfterOneFailure)
        try await ProxyTestAPI.with(configure: configure, upstream: Self.stream) { proxy in
            for _ in 0..<3 {
                let response = try await RawConnection.exchange(port: proxy.client.port, Self.get(proxy))
                #expect(response.hasPrefix("HTTP/1.1 200 ") && !response.hasSuffix("0\r\n\r\n"))
            }
            try await proxy.waitUntilOutcomesReported()
            #expect(try await proxy.api.coordinator.breaker(service: "shop").fleet.trips == 0)
        }
    }

    @Test("A quiet stream that timeouts.total ends is not a failure of its service")
    func quietStream() async throws {
        let configure = try Self.serviceChange("timeouts: { first_byte: 100ms, total: 400ms }", Self.opensAfterOneFailure)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(configure: configure, upstream: upstream) { proxy in
            _ = try await RawConnection.exchange(port: proxy.client.port, Self.get(proxy))
            try await proxy.waitUntilOutcomesReported()
            #expect(try await proxy.api.coordinator.breaker(service: "shop").fleet.trips == 0)
        }
    }

    /// Announces a hundred bytes and sends nine.
    private static let stalled: TestUpstream.Handler = { call in
        try await call.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning")
        while try await call.nextBytes() != nil {}
        throw TestUpstream.Close()
    }

    @Test(
        "A response that stalls before its declared length is a failure of its service",
        arguments: ["timeouts: { first_byte: 100ms, total: 500ms }", "timeouts: { idle: 200ms, total: none }"])
    func stalledAnswer(yaml: String) async throws {
        let configure = try Self.serviceChange(yaml, Self.opensAfterOneFailure)
        try await ProxyTestAPI.with(configure: configure, upstream: Self.stalled) { proxy in
            _ = try await RawConnection.exchange(port: proxy.client.port, Self.get(proxy))
            let coordinator = proxy.api.coordinator
            try await eventually("the failure is counted") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test("A stream that timeouts.idle ends is not a failure of its service")
    func idle() async throws {
        let configure = try Self.serviceChange("timeouts: { idle: 200ms, total: none }", Self.opensAfterOneFailure)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(configure: configure, upstream: upstream) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, Self.get(proxy))
            #expect(response.hasPrefix("HTTP/1.1 200 ") && !response.hasSuffix("0\r\n\r\n"))
            try await proxy.waitUntilOutcomesReported()
            #expect(try await proxy.api.coordinator.breaker(service: "shop").fleet.trips == 0)
        }
    }

    @Test("With total: none, a stream lasts while data flows")
    func endless() async throws {
        let configure = try Self.serviceChange("timeouts: { idle: 5s, total: none }", Self.opensAfterOneFailure)
        try await ProxyTestAPI.with(configure: configure, upstream: Self.stream) { proxy in
            try await proxy.client.follow("GET", "/proxy/shop/a") { $0.ranges(of: "data: x").count > 50 }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A caller that disconnects after slow_call counts as a slow call, so client deadlines do not hide an outage")
    func slowCallers() async throws {
        let slow = BreakerSettings(
            slowCall: .milliseconds(100), slowRate: 0.5, minimumCalls: 3, openFor: .seconds(30) ... .seconds(30))
        let upstream: TestUpstream.Handler = { call in
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(configure: { $0.breaker = slow }, upstream: upstream) { proxy in
            for number in 1...3 {
                try await proxy.client.whileConnected(sending: Self.get(proxy)) {
                    try await eventually("the upstream is called") { proxy.upstream.received.count == number }
                    // The client's own deadline is longer than `slowCall`.
                    try await Task.sleep(for: .milliseconds(200))
                }
                try await proxy.waitUntilOutcomesReported()
            }
            let coordinator = proxy.api.coordinator
            try await eventually("the breaker opens") { try await coordinator.breaker(service: "shop").state == .open }
            #expect(try await coordinator.breaker(service: "shop").fleet.cause == "slow")
        }
    }

    @Test("A trial whose caller disconnects after slow_call does not close the breaker")
    func slowTrialCaller() async throws {
        let isHealthy = NIOLockedValueBox(true)
        let settings = BreakerSettings(
            slowCall: .milliseconds(100), minimumCalls: 1, openFor: .milliseconds(100) ... .milliseconds(100), halfOpenPermits: 1)
        let upstream: TestUpstream.Handler = { call in
            if call.request.hasSuffix("/bad") { return try await call.answer("500 Sorry") }
            while try await call.nextBytes() != nil {}
            isHealthy.withLockedValue { $0 = false }
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(configure: { $0.breaker = settings }, upstream: upstream) { proxy in
            try await proxy.api.expect(500, "GET", "/proxy/shop/bad")
            let coordinator = proxy.api.coordinator
            try await eventually("a trial starts, and its caller disconnects") {
                let requestCount = proxy.upstream.received.count
                // If the call is refused, the listener closes the connection first.
                try? await proxy.client.whileConnected(sending: Self.get(proxy)) {
                    // The client's own deadline is longer than `slowCall`.
                    try await Task.sleep(for: .milliseconds(300))
                }
                return proxy.upstream.received.count > requestCount
            }
            try await proxy.waitUntilOutcomesReported()
            #expect(try await coordinator.breaker(service: "shop").fleet.state != .closed)
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import NIOCore
import Testing

@Suite("Proxy: HTTP/2 upstreams that fail", .timeLimit(.minutes(1)))
struct HTTP2UpstreamTests {
    private typealias Frame = HTTP2TestClient.Frame

    private static func with(
        _ reply: @escaping ScriptedHTTP2Server.Reply, configure: (inout ServiceDefinition) -> Void = { _ in },
        _ body: (HTTPTestAPI, _ connections: NIOLockedValueBox<Int>) async throws -> Void
    ) async throws {
        try await ScriptedHTTP2Server.with(reply) { server in
            var service = ServiceDefinition(
                name: "shop", upstream: UpstreamSettings(url: "http://127.0.0.1:\(server.port)"))
            service.upstream?.speaksHTTP2 = true
            configure(&service)
            try await HTTPTestAPI.with(services: [service]) { api in try await body(api, server.connections) }
        }
    }

    private static func answer(_ stream: UInt32, _ status: String = "200") -> Frame {
        ScriptedHTTP2Server.answer(stream, status)
    }

    @Test("Calls share one connection, and those beyond the server's limit wait or use another")
    func callsShareOneConnection() async throws {
        try await Self.with({ _, frame in frame.kind == .headers ? [Self.answer(frame.stream)] : [] }) { api, connections in
            for _ in 0..<5 { try await api.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 1)
        }
    }

    @Test("A silent server is abandoned, and the next call opens a new connection")
    func silentServerIsAbandoned() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.connectTimeout = .milliseconds(200)
            $0.upstream?.firstByteTimeout = .milliseconds(200)
        }
        let reply: ScriptedHTTP2Server.Reply = { number, frame in
            // The first connection goes silent after its first response.
            frame.kind == .headers && (number > 1 || frame.stream == 1) ? [Self.answer(frame.stream)] : []
        }
        try await Self.with(reply, configure: configure) { api, connections in
            try await api.expect(200, "GET", "/proxy/shop/a")
            try await api.expect(504, "GET", "/proxy/shop/a")
            let client = api.client
            try await eventually("a call is answered again") { try await client.send("GET", "/proxy/shop/a").status == 200 }
            #expect(connections.withLockedValue(\.self) == 2)
        }
    }

    @Test("A server without HTTP/2 fails each call immediately, with one connection per call")
    func otherProtocol() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.speaksHTTP2 = true
            $0.upstream?.retries.attempts = 0
            $0.upstream?.connectTimeout = .seconds(20)
        }
        try await ProxyTestAPI.with(
            configure: configure,
            upstream: { call in
                try await call.send("HTTP/1.1 400 Bad Request\r\n\r\n")
                throw TestUpstream.Close()
            }
        ) { proxy in
            for _ in 0..<3 { try await proxy.api.expect(502, "GET", "/proxy/shop/a") }
            #expect(proxy.upstream.connectionCount == 3)
        }
    }

    @Test("A server that sends GOAWAY finishes its streams, and later calls use another connection")
    func goAway() async throws {
        let reply: ScriptedHTTP2Server.Reply = { number, frame in
            guard frame.kind == .headers else { return [] }
            let goAway = Frame(kind: .goAway, payload: ByteBuffer(bytes: [0, 0, 0, 1, 0, 0, 0, 0]))
            return number == 1 ? [goAway, Self.answer(frame.stream)] : [Self.answer(frame.stream)]
        }
        try await Self.with(reply) { api, connections in
            for _ in 0..<3 { try await api.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 2)
        }
    }

    /// Configures a breaker that opens after one failure.
    private static func openAfterOneFailure(_ service: inout ServiceDefinition) {
        service.upstream?.retries.attempts = 0
        service.breaker = BreakerSettings(minimumCalls: 1)
    }

    private static func expectNoFailure(_ api: HTTPTestAPI) async throws {
        let coordinator = api.coordinator
        try await eventually("every outcome is reported") { await coordinator.status.inFlightPermitCount == 0 }
        #expect(try await coordinator.breaker(service: "shop").fleet.trips == 0)
        #expect(try await coordinator.breaker(service: "shop").state == .closed)
    }

    @Test(
        "A stream refused by the server is sent once more with its body, and is not a failure",
        arguments: [("GET", nil), ("POST", nil), ("POST", "body")] as [(String, String?)])
    func refused(method: String, body: String?) async throws {
        let refusals = NIOLockedValueBox(1)
        let reply: ScriptedHTTP2Server.Reply = { _, frame in
            guard frame.endsStream else { return [] }
            let isRefused = refusals.withLockedValue { remaining in
                remaining -= 1
                return remaining >= 0
            }
            return [isRefused ? HTTP2TestClient.reset(frame.stream, code: 7) : Self.answer(frame.stream)]
        }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(200, method, "/proxy/shop/a", body)
            try await Self.expectNoFailure(api)
        }
    }

    @Test("A stream refused twice is not sent again, and is not a failure")
    func refusedAgain() async throws {
        let requestCount = NIOLockedValueBox(0)
        let reply: ScriptedHTTP2Server.Reply = { _, frame in
            guard frame.endsStream else { return [] }
            requestCount.withLockedValue { $0 += 1 }
            return [HTTP2TestClient.reset(frame.stream, code: 7)]
        }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(502, "POST", "/proxy/shop/a", "body")
            #expect(requestCount.withLockedValue(\.self) == 2)
            try await Self.expectNoFailure(api)
        }
    }

    @Test("A stream that GOAWAY leaves unprocessed is sent on another connection, regardless of its method")
    func unprocessed() async throws {
        let reply: ScriptedHTTP2Server.Reply = { number, frame in
            guard frame.endsStream else { return [] }
            // The last processed stream is 0: none was processed.
            let goAway = Frame(kind: .goAway, payload: ByteBuffer(bytes: [0, 0, 0, 0, 0, 0, 0, 0]))
            return number == 1 ? [goAway] : [Self.answer(frame.stream)]
        }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, connections in
            try await api.expect(200, "POST", "/proxy/shop/a", "body")
            #expect(connections.withLockedValue(\.self) == 2)
            try await Self.expectNoFailure(api)
        }
    }

    @Test("A stream reset for another reason is not sent again, and is a failure")
    func otherStreamResetIsNotRetried() async throws {
        let reply: ScriptedHTTP2Server.Reply = { _, frame in
            frame.endsStream ? [HTTP2TestClient.reset(frame.stream, code: 2)] : []
        }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(502, "POST", "/proxy/shop/a", "body")
            let coordinator = api.coordinator
            try await eventually("the failure is counted") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test(
        "A response with an invalid status fails the call immediately",
        arguments: ["99", "099", "0", "1000", "+200", "20", "abc", "101"])
    func noStatus(status: String) async throws {
        let reply: ScriptedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, status)] : [] }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
            let coordinator = api.coordinator
            try await eventually("the failure is counted") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test("A response with a negative status fails the call without stopping the sidecar")
    func negativeStatus() async throws {
        let reply: ScriptedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, "-1")] : [] }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
        }
    }

    @Test("A response that ends after an informational head fails the call")
    func endsInformational() async throws {
        let reply: ScriptedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, "103")] : [] }
        try await Self.with(reply, configure: Self.openAfterOneFailure) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
        }
    }

    @Test("A malformed HTTP/2 response fails only its own call", arguments: [":status: 200", "", "malformed"])
    func malformedHTTP2ResponseFailsOnlyItsCall(kind: String) async throws {
        let reply: ScriptedHTTP2Server.Reply = { number, frame in
            guard frame.kind == .headers else { return [] }
            guard number == 1 else { return [Self.answer(frame.stream)] }
            switch kind {
            case "": return [HTTP2TestClient.data("x", stream: frame.stream, ends: true)]
            case "malformed": return [HTTP2TestClient.block([(":status", "200"), ("X", "y")], stream: frame.stream, ends: true)]
            default: return [HTTP2TestClient.block([("status", "200")], stream: frame.stream, ends: true)]
            }
        }
        try await Self.with(reply, configure: { $0.upstream?.retries.attempts = 0 }) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
            try await api.expect(200, "GET", "/proxy/shop/a")
        }
    }
}

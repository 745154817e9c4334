import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import NIOCore
import Testing

@Suite("Proxy: upstreams of HTTP/2 that fail", .timeLimit(.minutes(1)))
struct HTTP2UpstreamTests {
    private typealias Frame = HTTP2TestClient.Frame

    private static func with(
        _ reply: @escaping PlayedHTTP2Server.Reply, configure: (inout ServiceDefinition) -> Void = { _ in },
        _ body: (HTTPTestAPI, _ connections: NIOLockedValueBox<Int>) async throws -> Void
    ) async throws {
        try await PlayedHTTP2Server.with(reply) { server in
            var service = ServiceDefinition(
                name: "shop", upstream: UpstreamSettings(url: "http://127.0.0.1:\(server.port)"))
            service.upstream?.speaksHTTP2 = true
            configure(&service)
            try await HTTPTestAPI.with(services: [service]) { api in try await body(api, server.connections) }
        }
    }

    private static func answer(_ stream: UInt32, _ status: String = "200") -> Frame {
        PlayedHTTP2Server.answer(stream, status)
    }

    @Test("calls share one connection, and more than the server takes at a time wait or have another")
    func shared() async throws {
        try await Self.with({ _, frame in frame.kind == .headers ? [Self.answer(frame.stream)] : [] }) { api, connections in
            for _ in 0..<5 { try await api.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 1)
        }
    }

    @Test("a server that says nothing any more is left, and the next call has a connection of its own")
    func silent() async throws {
        let configure: (inout ServiceDefinition) -> Void = {
            $0.upstream?.connectTimeout = .milliseconds(200)
            $0.upstream?.firstByteTimeout = .milliseconds(200)
        }
        let reply: PlayedHTTP2Server.Reply = { number, frame in
            // The first connection goes silent after its first answer.
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

    @Test("a server that is none of HTTP/2 fails each call at once, by one connection for each")
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

    @Test("a server that says farewell finishes what it has, and is called on another connection")
    func farewell() async throws {
        let reply: PlayedHTTP2Server.Reply = { number, frame in
            guard frame.kind == .headers else { return [] }
            let farewell = Frame(kind: .goAway, payload: ByteBuffer(bytes: [0, 0, 0, 1, 0, 0, 0, 0]))
            return number == 1 ? [farewell, Self.answer(frame.stream)] : [Self.answer(frame.stream)]
        }
        try await Self.with(reply) { api, connections in
            for _ in 0..<3 { try await api.expect(200, "GET", "/proxy/shop/a") }
            #expect(connections.withLockedValue(\.self) == 2)
        }
    }

    /// Configures a breaker that opens after one failure.
    private static func touchy(_ service: inout ServiceDefinition) {
        service.upstream?.retries.attempts = 0
        service.breaker = BreakerSettings(minimumCalls: 1)
    }

    private static func isBlameless(_ api: HTTPTestAPI) async throws {
        let coordinator = api.coordinator
        try await eventually("every outcome is reported") { await coordinator.status.permitsInFlight == 0 }
        #expect(try await coordinator.breaker(service: "shop").fleet.trips == 0)
        #expect(try await coordinator.breaker(service: "shop").state == .closed)
    }

    @Test(
        "a stream that the server refuses is sent once more, with its body, and is no failure of the service",
        arguments: [("GET", nil), ("POST", nil), ("POST", "body")] as [(String, String?)])
    func refused(method: String, body: String?) async throws {
        let refusals = NIOLockedValueBox(1)
        let reply: PlayedHTTP2Server.Reply = { _, frame in
            guard frame.endsStream else { return [] }
            let isRefused = refusals.withLockedValue { left in
                left -= 1
                return left >= 0
            }
            return [isRefused ? HTTP2TestClient.reset(frame.stream, code: 7) : Self.answer(frame.stream)]
        }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(200, method, "/proxy/shop/a", body)
            try await Self.isBlameless(api)
        }
    }

    @Test("a stream that the server refuses again is given up after one repetition, and is no failure of the service")
    func refusedAgain() async throws {
        let asked = NIOLockedValueBox(0)
        let reply: PlayedHTTP2Server.Reply = { _, frame in
            guard frame.endsStream else { return [] }
            asked.withLockedValue { $0 += 1 }
            return [HTTP2TestClient.reset(frame.stream, code: 7)]
        }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(502, "POST", "/proxy/shop/a", "body")
            #expect(asked.withLockedValue(\.self) == 2)
            try await Self.isBlameless(api)
        }
    }

    @Test("a stream that a farewell declares unprocessed is sent on another connection, whatever its method")
    func unprocessed() async throws {
        let reply: PlayedHTTP2Server.Reply = { number, frame in
            guard frame.endsStream else { return [] }
            // The last processed stream is 0: none was processed.
            let farewell = Frame(kind: .goAway, payload: ByteBuffer(bytes: [0, 0, 0, 0, 0, 0, 0, 0]))
            return number == 1 ? [farewell] : [Self.answer(frame.stream)]
        }
        try await Self.with(reply, configure: Self.touchy) { api, connections in
            try await api.expect(200, "POST", "/proxy/shop/a", "body")
            #expect(connections.withLockedValue(\.self) == 2)
            try await Self.isBlameless(api)
        }
    }

    @Test("a stream that the server resets for another reason is not sent again, and is a failure")
    func reset() async throws {
        let reply: PlayedHTTP2Server.Reply = { _, frame in
            frame.endsStream ? [HTTP2TestClient.reset(frame.stream, code: 2)] : []
        }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(502, "POST", "/proxy/shop/a", "body")
            let coordinator = api.coordinator
            try await eventually("it counts") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test(
        "an answer with an invalid status fails the call at once",
        arguments: ["99", "099", "0", "1000", "+200", "20", "abc", "101"])
    func noStatus(status: String) async throws {
        let reply: PlayedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, status)] : [] }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
            let coordinator = api.coordinator
            try await eventually("it counts") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test("an answer whose status is a negative number fails the call, and not the sidecar")
    func negativeStatus() async throws {
        let reply: PlayedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, "-1")] : [] }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
        }
    }

    @Test("an answer that ends with an informational head fails the call")
    func endsInformational() async throws {
        let reply: PlayedHTTP2Server.Reply = { _, frame in frame.kind == .headers ? [Self.answer(frame.stream, "103")] : [] }
        try await Self.with(reply, configure: Self.touchy) { api, _ in
            try await api.expect(502, "GET", "/proxy/shop/a")
        }
    }

    @Test("what is no HTTP/2 fails the call, and only it", arguments: [":status: 200", "", "malformed"])
    func broken(kind: String) async throws {
        let reply: PlayedHTTP2Server.Reply = { number, frame in
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

import Interlock
import InterlockCore
import Testing

@testable import SidecarListeners

@Suite("HTTP API: limits")
struct HTTPLimitTests {
    @Test("Calls within the limit are admitted, and the next is refused with a time to retry")
    func takeUntilRefused() async throws {
        try await HTTPTestAPI.with { api in
            let first = try await api.client.send("POST", "/v1/limits/catalog/take")
            #expect(first.status == 200)
            #expect(first.json["limited"] == .bool(false))
            #expect(first.integer("remaining") == 1)
            #expect(first.integer("retry_after_ms") == -1)
            #expect(first.text("name") == "10s")
            #expect(first.headers["ratelimit-policy"] == #""10s";q=2;w=10"#)
            #expect(first.headers["ratelimit"] == #""10s";r=1;t=10"#)

            let overview = try await api.client.send("GET", "/v1/limits/catalog")
            #expect(overview.integer("remaining") == 1)
            guard case .array(let limits) = overview.json["limits"], case .object(let limit) = limits.first else {
                return #expect(Bool(false), "no limits in \(overview.body)")
            }
            #expect(limits.count == 1)
            #expect(limit["name"] == .string("10s"))
            #expect(limit["algorithm"] == .string("fixed"))
            #expect(limit["remaining"] == .integer(1))
            try await api.expect(200, "POST", "/v1/limits/catalog/take", "{}")

            let refusal = try await api.client.send("POST", "/v1/limits/catalog/take", #"{"cost": 1}"#)
            #expect(refusal.status == 429)
            #expect(refusal.text("code") == "limited")
            #expect(refusal.json["limited"] == .bool(true))
            let wait = try #require(refusal.integer("retry_after_ms"))
            #expect(refusal.headers["retry-after"] == "\((wait + 999) / 1000)")
            #expect(refusal.headers["ratelimit"]?.hasPrefix(#""10s";r=0;t="#) == true)
            #expect(refusal.headers["ratelimit-policy"] == #""10s";q=2;w=10"#)
        }
    }

    @Test("A call that costs more than the limit is invalid, and the error says why")
    func tooExpensive() async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("POST", "/v1/limits/catalog/take", #"{"cost": 3}"#)
            #expect(refusal.status == 400)
            #expect(refusal.text("code") == "invalid")
            #expect(
                refusal.text("detail")
                    == #"a call of cost 3 can never be granted: the limit 10s of the service "catalog" is 2"#)
            #expect(refusal.headers["retry-after"] == nil)
            let permit = try await api.client.send("POST", "/v1/services/catalog/permits", #"{"cost": 3}"#)
            #expect(permit.status == 400)
            #expect(permit.text("code") == "invalid")
        }
    }

    @Test("Shadow limits are not reported to clients, and a fresh one-second window resets in one second")
    func shadowsAndSeconds() async throws {
        let shadow = LimitDefinition(name: "shadow", limit: 1, window: .seconds(3600), isShadow: true)
        let real = LimitDefinition(name: "real", limit: 1, window: .seconds(1))
        let services = [
            ServiceDefinition(name: "tried", limits: [shadow]), ServiceDefinition(name: "both", limits: [shadow, real]),
        ]
        try await HTTPTestAPI.with(services: services) { api in
            for _ in 0..<2 {
                let decision = try await api.client.send("POST", "/v1/limits/tried/take")
                #expect(decision.status == 200 && decision.text("name") == "shadow")
                #expect(decision.headers["ratelimit"] == nil && decision.headers["ratelimit-policy"] == nil)
            }
            let first = try await api.client.send("POST", "/v1/limits/both/take")
            #expect(first.headers["ratelimit"] == #""real";r=0;t=1"#)
            #expect(first.headers["ratelimit-policy"] == #""real";q=1;w=1"#)
            let second = try await api.client.send("POST", "/v1/limits/both/take")
            // On a busy machine, the window of one second may be over.
            guard second.status == 429 else { return }
            #expect(second.headers["retry-after"] == "1")
            #expect(second.headers["ratelimit"] == #""real";r=0;t=1"#)
        }
    }

    @Test("A waiting call is granted in turn")
    func waitingCallIsGrantedInTurn() async throws {
        let service = ServiceDefinition(
            name: "fast", limits: [LimitDefinition(name: "100ms", limit: 1, window: .milliseconds(100))])
        try await HTTPTestAPI.with(services: [service]) { api in
            for _ in 0..<3 {
                let decision = try await api.client.send("POST", "/v1/limits/fast/take", #"{"wait_ms": 20000}"#)
                #expect(decision.status == 200)
            }
        }
    }

    @Test("An unknown service is not found")
    func unknownService() async throws {
        try await HTTPTestAPI.with { api in
            for (method, path) in [("POST", "/v1/limits/x/take"), ("GET", "/v1/limits/x"), ("GET", "/v1/services/x")] {
                let missing = try await api.client.send(method, path)
                #expect(missing.status == 404)
                #expect(missing.text("code") == "unknown_service")
                #expect(
                    missing.text("detail")
                        == "no service \"x\" is configured; list the services, or see `services` in the configuration")
            }
            let misspelled = try await api.client.send("POST", "/v1/limits/catlog/take")
            #expect(misspelled.text("detail") == "no service \"catlog\" is configured; did you mean catalog?")
        }
    }
}

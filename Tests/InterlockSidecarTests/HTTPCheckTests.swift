import Interlock
import InterlockCore
import InterlockProcesses
import SidecarSettings
import Testing

@Suite("HTTP API: checks for gateways")
struct HTTPCheckTests {
    private static let path = "/v1/check/catalog"

    private static func service(perSubject: Bool = false, whenDown: OutagePolicy = .local) -> ServiceDefinition {
        var service = ServiceDefinition(
            name: "catalog",
            limits: [LimitDefinition(name: "hour", limit: 3, window: .seconds(3600), isPerSubject: perSubject)])
        service.whenRedisIsDown = whenDown
        return service
    }

    @Test("A call passes until the limit is reached, and the response states the remainder")
    func callPassesUntilLimitIsReached() async throws {
        try await HTTPTestAPI.with(services: [Self.service()]) { api in
            let first = try await api.client.send("GET", Self.path)
            #expect(first.status == 200)
            #expect(first.headers["ratelimit"] == #""hour";r=2;t=3600"#)
            #expect(first.headers["ratelimit-policy"] == #""hour";q=3;w=3600"#)
            #expect(try await api.client.send("GET", Self.path + "?cost=2").headers["ratelimit"] == #""hour";r=0;t=3600"#)
            let refusal = try await api.client.send("GET", Self.path)
            #expect(refusal.status == 429)
            #expect(refusal.headers["retry-after"] == "3600")
            #expect(refusal.body.contains(#""code":"limited""#))
            #expect(!refusal.body.contains("wait_ms"))
            // A cost above the capacity can never be granted.
            try await api.expect(400, "GET", Self.path + "?cost=4")
        }
    }

    @Test("Subject and cost are given in a field or in the query, but not in both")
    func fields() async throws {
        try await HTTPTestAPI.with(services: [Self.service(perSubject: true)]) { api in
            try await api.expect(200, "GET", Self.path, headers: ["Interlock-Subject": "a", "Interlock-Cost": "3"])
            try await api.expect(429, "GET", Self.path + "?subject=a")
            try await api.expect(200, "GET", Self.path + "?subject=10.0.0.7&cost=3")
            try await api.expect(405, "HEAD", Self.path, headers: ["Interlock-Subject": "10.0.0.7"])
            try await api.expect(400, "GET", Self.path + "?subject=b", headers: ["Interlock-Subject": "a"])
            try await api.expect(400, "GET", Self.path + "?cost=1", headers: ["Interlock-Cost": "1"])
            for cost in ["0", "-1", "x", "1e3", "99999999999999999999", ""] {
                try await api.expect(400, "GET", Self.path + "?cost=\(cost)")
            }
            try await api.expect(400, "GET", Self.path + "?subject=")
            try await api.expect(400, "GET", Self.path + "?tenant=a")
            try await api.expect(404, "GET", "/v1/check/nobody")
            try await api.expect(405, "POST", Self.path)
        }
    }

    @Test("A half-open breaker admits calls without using a trial")
    func halfOpen() async throws {
        var service = Self.service()
        service.limits = []
        service.breaker.consecutiveFailures = 1
        service.breaker.openFor = .milliseconds(100) ... .milliseconds(100)
        try await HTTPTestAPI.with(services: [service]) { api in
            guard case .granted(let permit, _) = try await api.coordinator.acquirePermit(service: "catalog") else {
                throw InterlockError(.other, "the permit was refused")
            }
            _ = try await api.coordinator.reportPermit(
                service: "catalog", permit: permit, OutcomeReport(outcome: .error))
            try await eventually("the breaker is half-open") {
                try await api.coordinator.breaker(service: "catalog").fleet.state == .halfOpen
            }
            // Other callers use up all half-open permits.
            while case .granted = try await api.coordinator.acquirePermit(service: "catalog") {}
            for _ in 0..<20 { try await api.expect(200, "GET", Self.path) }
            #expect(try await api.coordinator.breaker(service: "catalog").fleet.state == .halfOpen)
        }
    }

    @Test("An open breaker refuses calls without using the limit")
    func openBreakerRefusesCallsWithoutUsingLimit() async throws {
        try await HTTPTestAPI.with(services: [Self.service()]) { api in
            _ = try await api.coordinator.forceBreaker(
                service: "catalog", to: .open, forMilliseconds: 60_000, reason: "", by: "test")
            let refusal = try await api.client.send("GET", Self.path)
            #expect(refusal.status == 503)
            #expect(refusal.body.contains(#""code":"open""#))
            #expect(refusal.body.contains(#""cause":"forced""#))
            #expect(Int(refusal.headers["retry-after"] ?? "") ?? 0 > 50)
            _ = try await api.coordinator.forceBreaker(service: "catalog", to: nil, reason: "", by: "test")
            #expect(try await api.client.send("GET", Self.path).headers["ratelimit"] == #""hour";r=2;t=3600"#)
        }
    }

    @Test("Without Redis, the check of a service whose outage policy denies calls answers 503")
    func redisUnreachable() async throws {
        try await HTTPTestAPI.with(services: [Self.service(whenDown: .deny)]) { api in
            await api.redis.kill()
            try await eventually("the service denies calls") { try await api.client.send("GET", Self.path).status == 503 }
            #expect(try await api.client.send("GET", Self.path).headers["retry-after"] == "1")
        }
    }

    @Test("If keys are configured, the check requires one")
    func keys() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web], services: [Self.service()]) { api in
            try await api.expect(401, "GET", Self.path)
            try await api.expect(200, "GET", Self.path, headers: ["X-Api-Key": HTTPTestAPI.web.secret])
        }
    }
}

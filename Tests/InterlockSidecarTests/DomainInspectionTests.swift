import Interlock
import InterlockCore
import RedisClient
import Testing

@Suite("Inspecting domains through both APIs")
struct DomainInspectionTests {
    private static var domains: DomainSettings {
        func limit(_ count: Int64) -> DescriptorLimit {
            .rate(LimitDefinition(name: "1h", limit: count, window: .seconds(3600)), isAligned: false)
        }
        var settings = DomainSettings()
        settings.definitions = [
            RateLimitDomain(
                name: "edge",
                rules: [
                    DescriptorRule(key: "ip", limit: limit(1)), DescriptorRule(key: "list", limit: limit(7)),
                    DescriptorRule(key: "free", limit: .unlimited),
                    DescriptorRule(key: "closed", limit: .blocked(window: .seconds(86_400))),
                ])
        ]
        settings.timeout = .seconds(2)
        return settings
    }

    @Test("LIMIT.PEEK with a descriptor reports the decision without using the limit")
    func command() async throws {
        try await RESPTestAPI.with(domains: Self.domains) { api in
            func peek(_ descriptor: String) async throws -> [Int] {
                try await api.send("LIMIT.PEEK", "edge", "DESCRIPTOR", descriptor).array?.compactMap { $0.integer.map(Int.init) }
                    ?? []
            }
            for _ in 0..<2 { #expect(try await Array(peek("ip=10.0.0.1").prefix(4)) == [0, 1, 1, -1]) }
            let requested = RequestedDescriptor(entries: [DescriptorEntry(key: "ip", value: "10.0.0.1")])
            #expect(try await api.coordinator.decide("edge", [requested])?.isOverLimit == false)
            let refusal = try await peek("ip=10.0.0.1")
            #expect(Array(refusal.prefix(3)) == [1, 1, 0] && (3_590_000...3_600_000).contains(refusal[3]))
            #expect(try await Array(peek("list=a%2Cb=c").prefix(3)) == [0, 7, 7])
            #expect(try await Array(peek("free=x").prefix(4)) == [0, 0, 0, -1])
            #expect(try await Array(peek("closed=x").prefix(4)) == [1, 0, 0, -1])
            #expect(try await api.send("LIMIT.PEEK", "edge", "DESCRIPTOR", "list=a", "NAMED").array?.last?.text == "list")
            for descriptor in ["", "ip", "=x", "other=x", "ip=a,b", "ip=%4", "ip=%FF"] {
                #expect(try await api.errorCode("LIMIT.PEEK", "edge", "DESCRIPTOR", descriptor) == "INVALID")
            }
            #expect(try await api.errorCode("LIMIT.PEEK", "nowhere", "DESCRIPTOR", "ip=x") == "INVALID")
            #expect(try await api.errorCode("LIMIT.PEEK", "edge", "DESCRIPTOR", "ip=x", "SUBJECT", "a") == "INVALID")
        }
    }

    @Test("HTTP lists the rules with their decisions, and evaluates a descriptor without using the limit")
    func httpListsRulesWithDecisions() async throws {
        try await HTTPTestAPI.with(domains: Self.domains) { api in
            let requested = RequestedDescriptor(entries: [DescriptorEntry(key: "ip", value: "a")])
            for _ in 0..<3 { _ = try await api.coordinator.decide("edge", [requested]) }
            let all = try await api.client.send("GET", "/v1/domains")
            #expect(all.status == 200)
            #expect(all.body.contains(#""over_limit":2"#) && all.body.contains(#""rule":"closed""#), "\(all.body)")
            let decision = try await api.client.send("GET", "/v1/domains/edge/peek?descriptor=ip%3Da")
            #expect(decision.body.contains(#""limited":true"#) && decision.body.contains(#""name":"ip""#), "\(decision.body)")
            for path in [
                "edge/peek", "edge/peek?descriptor=", "edge/peek?descriptor=other%3D1", "nowhere/peek?descriptor=ip%3D1",
            ] {
                try await api.expect(400, "GET", "/v1/domains/\(path)")
            }
        }
    }
}

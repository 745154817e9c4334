import Interlock
import InterlockCore
import RedisClient
import Testing

@Suite("A limit that requires a subject", .timeLimit(.minutes(2)))
struct RequiredSubjectTests {
    private static let limit = LimitDefinition(
        name: "tenant", limit: 100, window: .seconds(60), isPerSubject: true, requiresSubject: true)
    private static let service = ServiceDefinition(name: "partner", limits: [limit])
    private static let words = [
        #"the limit "tenant" of the service "partner""#, "subject: required", "SUBJECT", "Interlock-Subject",
    ]

    private static func isExplained(_ message: String?) -> Bool { words.allSatisfy { message?.contains($0) == true } }

    private static func message(_ reply: RedisReply) -> String? {
        if case .error(let error) = reply { error.message } else { nil }
    }

    @Test("Takes and permits over RESP are invalid without a subject, and pass with one")
    func respCallWithoutSubjectIsInvalid() async throws {
        try await RESPTestAPI.with(services: [Self.service]) { api in
            for words in [
                ["LIMIT.TAKE", "partner"], ["LIMIT.TAKE", "partner", "WAIT", "1000"], ["PERMIT.ACQUIRE", "partner"],
                ["PERMIT.ACQUIRE", "partner", "WAIT", "1000"],
            ] {
                let message = Self.message(try await api.send(words))
                #expect(message?.hasPrefix("INVALID ") == true, "\(words)")
                #expect(Self.isExplained(message), "\(message ?? "")")
            }
            #expect(try await api.errorCode("LIMIT.TAKE", "partner", "SUBJECT", "tenant-7") == nil)
            #expect(try await api.errorCode("PERMIT.ACQUIRE", "partner", "SUBJECT", "tenant-7") == nil)
            // Calls that arrive together are batched, and each is answered.
            let replies = try await api.exchange(
                String(repeating: "LIMIT.TAKE partner\r\n", count: 3) + "PING\r\n", until: "+PONG\r\n")
            let refusals = replies.split(separator: "\r\n").filter { $0.hasPrefix("-INVALID ") }
            #expect(refusals.count == 3, "\(replies)")
        }
    }

    @Test("Over HTTP, a call without a subject is a bad request, even while the breaker is open")
    func httpCallWithoutSubjectIsBadRequest() async throws {
        try await HTTPTestAPI.with(services: [Self.service]) { api in
            _ = try await api.coordinator.forceBreaker(service: "partner", to: .open, by: "test")
            for path in ["/v1/limits/partner/take", "/v1/services/partner/permits"] {
                let refusal = try await api.client.send("POST", path)
                #expect(refusal.status == 400)
                #expect(refusal.text("code") == "invalid")
                #expect(Self.isExplained(refusal.text("detail")), "\(refusal.body)")
            }
            try await api.expect(200, "POST", "/v1/limits/partner/take", #"{"subject": "tenant-7"}"#)
        }
    }

    @Test("A proxied call without the header is a bad request, even if the service has a fallback")
    func proxiedCallWithoutHeaderIsBadRequest() async throws {
        try await ProxyTestAPI.with(
            configure: {
                $0.limits = [Self.limit]
                $0.upstream?.fallback = .fixed(status: 203, body: "{}", mediaType: "application/json")
            }, upstream: { try await $0.answer("200 OK", [], "ok") }
        ) { proxy in
            let refusal = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(refusal.status == 400)
            #expect(refusal.text("code") == "invalid")
            #expect(refusal.text("detail")?.contains("the header Interlock-Subject") == true)
            #expect(proxy.upstream.received.isEmpty)
            try await proxy.api.expect(200, "GET", "/proxy/shop/a", headers: ["Interlock-Subject": "tenant-7"])
        }
    }

    @Test("A reload that requires a subject takes effect immediately")
    func reloadThatRequiresSubjectTakesEffectImmediately() async throws {
        let lenient = ServiceDefinition(
            name: "partner", limits: [LimitDefinition(name: "tenant", limit: 100, window: .seconds(60), isPerSubject: true)])
        try await RESPTestAPI.with(services: [lenient]) { api in
            let before = try await api.errorCode("PERMIT.ACQUIRE", "partner")
            #expect(before == nil)
            try await api.coordinator.reload(services: [Self.service])
            let after = try await api.errorCode("PERMIT.ACQUIRE", "partner")
            #expect(after == "INVALID")
        }
    }
}

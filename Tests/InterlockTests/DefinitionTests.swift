import Interlock
import Testing

/// Definitions that a program can make through the public API.
@Suite("Invalid definitions")
struct DefinitionTests {
    private static let limit = LimitDefinition(name: "1s", limit: 10, window: .seconds(1))

    private static func refusal(of services: [ServiceDefinition]) -> InterlockError? {
        #expect(throws: InterlockError.self) {
            try InterlockConfiguration(redis: "redis://127.0.0.1:6379", services: services)
        }
    }

    @Test(
        "An invalid definition is refused with the property, what was expected and the value",
        arguments: [
            (ServiceDefinition(name: "a:b"), "a service's name: expected a name without \":\", got \"a:b\""),
            (ServiceDefinition(name: "a", concurrency: 0), "the service \"a\": concurrency: expected 1 to 1000000, got 0"),
            (
                ServiceDefinition(name: "a", limits: [LimitDefinition(name: "1s", limit: 0, window: .seconds(1))]),
                "the service \"a\", the limit \"1s\": limit: expected 1 to 1000000000000000, got 0"
            ),
            (
                ServiceDefinition(name: "a", limits: [LimitDefinition(name: "a~b", limit: 1, window: .seconds(1))]),
                "the service \"a\": a limit's name: expected a name without \"~\", got \"a~b\""
            ),
            (ServiceDefinition(name: "a", limits: [limit, limit]), "the service \"a\": the limit \"1s\" is defined twice"),
            (
                ServiceDefinition(name: "a", onLimit: LimitPolicy(patience: .seconds(-1))),
                "the service \"a\": onLimit.patience: expected 0.0 seconds to 86400.0 seconds, got -1.0 seconds"
            ),
            (
                ServiceDefinition(name: "a", breaker: BreakerSettings(failureRate: 2)),
                "the service \"a\": breaker.failureRate: expected 0.01 to 1.0, got 2.0"
            ),
            (
                ServiceDefinition(name: "a", breaker: BreakerSettings(window: .calls(10))),
                "the service \"a\": breaker.minimumCalls: expected 1 to 10, got 20"
            ),
        ])
    func service(_ service: ServiceDefinition, _ message: String) {
        let error = Self.refusal(of: [service])
        #expect(error?.code == .invalid)
        #expect(error?.message == message)
    }

    @Test("Two definitions with one name are refused")
    func twins() {
        let error = Self.refusal(of: [ServiceDefinition(name: "a"), ServiceDefinition(name: "a")])
        #expect(error?.message == "the service \"a\" is defined twice")
    }

    @Test("Invalid global settings are refused: a prefix that changes hash slots, a timeout of zero, leases without an end")
    func whole() {
        func refusal(_ make: () throws -> InterlockConfiguration) -> String? {
            (#expect(throws: InterlockError.self) { try make() })?.message
        }
        let url = "redis://127.0.0.1:6379"
        #expect(
            refusal { try InterlockConfiguration(redis: url, prefix: "a{b}") }
                == "prefix: expected 1-64 bytes without control characters, spaces or braces, got \"a{b}\"")
        #expect(
            refusal { try InterlockConfiguration(redis: url, timeout: .zero) }
                == "timeout: expected 0.01 seconds to 60.0 seconds, got 0.0 seconds")
        #expect(
            refusal { try InterlockConfiguration(redis: url, locks: LockSettings(maximumTTL: .zero)) }
                == "the locks: maximumTTL: expected 0.01 seconds to 31622400.0 seconds, got 0.0 seconds")
        #expect(
            refusal {
                try InterlockConfiguration(redis: url, locks: LockSettings(minimumTTL: .seconds(9), maximumTTL: .seconds(8)))
            }
                == "the locks: minimumTTL: expected 0.005 seconds to 8.0 seconds, got 9.0 seconds")
    }

    @Test("A label, an owner or a host that no listener would accept is refused")
    func labels() async throws {
        let message =
            "label: the label contains a space; it must be 1-256 bytes of UTF-8 without control characters, spaces or braces"
        try await Fleet.run(of: 1, services: []) { fleet in
            let locks = fleet.sidecars[0].locks
            let labelled = await #expect(throws: InterlockError.self) { try await locks.acquire("orders", label: "web 1") }
            #expect(labelled?.code == .invalid)
            #expect(labelled?.message == message)
            let owned = await #expect(throws: InterlockError.self) { try await locks.acquire(all: ["orders"], owner: "") }
            #expect(owned?.code == .invalid)
        }
        let hosted = #expect(throws: InterlockError.self) {
            try InterlockConfiguration(redis: "redis://127.0.0.1:6379", host: "web 1")
        }
        #expect(hosted?.message.contains("host, the default label") == true)
    }

    @Test("A running coordinator does not apply invalid definitions")
    func reload() async throws {
        try await Fleet.run(of: 1, services: [ServiceDefinition(name: "a", limits: [Self.limit])]) { fleet in
            let coordinator = fleet.sidecars[0]
            await #expect(throws: InterlockError.self) {
                try await coordinator.reload(services: [ServiceDefinition(name: "b", concurrency: 0)])
            }
            let answer = try await coordinator.limits.take(from: "a")
            #expect(answer.isTaken)
        }
    }
}

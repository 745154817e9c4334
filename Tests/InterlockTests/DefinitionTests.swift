import Interlock
import Testing

/// Definitions that a program can create through the public API.
@Suite("Invalid definitions")
struct DefinitionTests {
    private static let limit = LimitDefinition(name: "1s", limit: 10, window: .seconds(1))

    private static func error(of services: [ServiceDefinition]) -> InterlockError? {
        #expect(throws: InterlockError.self) {
            try InterlockConfiguration(redis: "redis://127.0.0.1:6379", services: services)
        }
    }

    @Test(
        "The error of an invalid definition names the property, the expected values and the value",
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
                ServiceDefinition(name: "a", onLimit: LimitPolicy(maximumWait: .seconds(-1))),
                "the service \"a\": onLimit.maximumWait: expected 0.0 seconds to 86400.0 seconds, got -1.0 seconds"
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
    func definitionErrorNamesProperty(_ service: ServiceDefinition, _ message: String) {
        let error = Self.error(of: [service])
        #expect(error?.code == .invalid)
        #expect(error?.message == message)
    }

    @Test("Two definitions with the same name are rejected")
    func twoDefinitionsWithSameNameAreRejected() {
        let error = Self.error(of: [ServiceDefinition(name: "a"), ServiceDefinition(name: "a")])
        #expect(error?.message == "the service \"a\" is defined twice")
    }

    @Test("Invalid global settings are rejected: a prefix that changes hash slots, a timeout of zero, a ttl of zero")
    func globalSettings() {
        func message(_ makeConfiguration: () throws -> InterlockConfiguration) -> String? {
            (#expect(throws: InterlockError.self) { try makeConfiguration() })?.message
        }
        let url = "redis://127.0.0.1:6379"
        #expect(
            message { try InterlockConfiguration(redis: url, prefix: "a{b}") }
                == "prefix: expected 1-64 bytes without control characters, spaces or braces, got \"a{b}\"")
        #expect(
            message { try InterlockConfiguration(redis: url, timeout: .zero) }
                == "timeout: expected 0.01 seconds to 60.0 seconds, got 0.0 seconds")
        #expect(
            message { try InterlockConfiguration(redis: url, locks: LockSettings(maximumTTL: .zero)) }
                == "the locks: maximumTTL: expected 0.01 seconds to 31622400.0 seconds, got 0.0 seconds")
        #expect(
            message {
                try InterlockConfiguration(redis: url, locks: LockSettings(minimumTTL: .seconds(9), maximumTTL: .seconds(8)))
            }
                == "the locks: minimumTTL: expected 0.005 seconds to 8.0 seconds, got 9.0 seconds")
    }

    @Test("A label, an owner or a host that no listener would accept is rejected")
    func labels() async throws {
        let expected =
            "label: the label contains a space; it must be 1-256 bytes of UTF-8 without control characters, spaces or braces"
        try await Fleet.run(of: 1, services: []) { fleet in
            let locks = fleet.sidecars[0].locks
            let labelError = await #expect(throws: InterlockError.self) { try await locks.acquire("orders", label: "web 1") }
            #expect(labelError?.code == .invalid)
            #expect(labelError?.message == expected)
            let ownerError = await #expect(throws: InterlockError.self) { try await locks.acquire(all: ["orders"], owner: "") }
            #expect(ownerError?.code == .invalid)
        }
        let hostError = #expect(throws: InterlockError.self) {
            try InterlockConfiguration(redis: "redis://127.0.0.1:6379", host: "web 1")
        }
        #expect(hostError?.message.contains("host, the default label") == true)
    }

    @Test("A running coordinator does not apply invalid definitions")
    func runningCoordinatorDoesNotApplyInvalidDefinitions() async throws {
        try await Fleet.run(of: 1, services: [ServiceDefinition(name: "a", limits: [Self.limit])]) { fleet in
            let coordinator = fleet.sidecars[0]
            await #expect(throws: InterlockError.self) {
                try await coordinator.reload(services: [ServiceDefinition(name: "b", concurrency: 0)])
            }
            let decision = try await coordinator.limits.take(from: "a")
            #expect(decision.isAllowed)
        }
    }
}

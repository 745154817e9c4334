import InterlockCore
import Testing

@testable import SidecarSettings

@Suite("Configuration: breakers")
struct ConfigurationBreakerTests {
    private func breaker(_ yaml: String) throws -> BreakerSettings {
        let read = try configuration("services: { a: { breaker: \(yaml) } }")
        return try #require(read.services.first).breaker
    }

    @Test("every key is read")
    func everything() throws {
        let read = try breaker(
            """
            { failure_rate: 25%, slow_call: 1s, slow_rate: 60%, window_calls: 200, minimum_calls: 50, consecutive_failures: 7,
              reporters: 3, open_for: 1s..9s, half_open_permits: 2, failures: [500..599, 429], ignore: [404],
              honour_retry_after: false, metrics_only: true }
            """)
        let expected = BreakerSettings(
            failureRate: 0.25, slowCall: .seconds(1), slowRate: 0.6, window: .calls(200), minimumCalls: 50,
            consecutiveFailures: 7, reporters: 3, openFor: .seconds(1) ... .seconds(9), halfOpenPermits: 2,
            failureStatuses: StatusSet(500...599, 429...429), ignoredStatuses: StatusSet(404...404), honoursRetryAfter: false,
            isMetricsOnly: true)
        #expect(read == expected)
    }

    @Test("an empty mapping keeps the defaults")
    func defaults() throws {
        #expect(try breaker("{}") == BreakerSettings())
    }

    @Test("minimum_calls is at most the size of a window of calls")
    func smallWindow() throws {
        #expect(try breaker("{ window_calls: 10 }").minimumCalls == 10)
        #expect(try breaker("{ window_calls: 1000 }").minimumCalls == BreakerSettings().minimumCalls)
    }

    @Test("reads statuses as a number, a range or a list, which may be empty")
    func statuses() throws {
        #expect(try breaker("{ failures: 500 }").failureStatuses == StatusSet(500...500))
        #expect(try breaker("{ failures: 500..503 }").failureStatuses == StatusSet(500...503))
        #expect(try breaker("{ failures: [] }").failureStatuses == StatusSet())
    }
}

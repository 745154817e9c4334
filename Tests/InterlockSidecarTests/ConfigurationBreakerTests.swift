import InterlockCore
import Testing

@testable import SidecarSettings

@Suite("Configuration: breakers")
struct ConfigurationBreakerTests {
    private func breaker(_ yaml: String) throws -> BreakerSettings {
        let settings = try configuration("services: { a: { breaker: \(yaml) } }")
        return try #require(settings.services.first).breaker
    }

    @Test("Every setting is read")
    func everySettingIsRead() throws {
        let settings = try breaker(
            """
            { failure_rate: 25%, slow_call: 1s, slow_rate: 60%, window_calls: 200, minimum_calls: 50, consecutive_failures: 7,
              reporters: 3, open_for: 1s..9s, half_open_permits: 2, failures: [500..599, 429], ignore: [404],
              honour_retry_after: false, metrics_only: true }
            """)
        let expected = BreakerSettings(
            failureRate: 0.25, slowCall: .seconds(1), slowRate: 0.6, window: .calls(200), minimumCalls: 50,
            consecutiveFailures: 7, reporters: 3, openFor: .seconds(1) ... .seconds(9), halfOpenPermits: 2,
            failureStatuses: StatusSet(500...599, 429...429), ignoredStatuses: StatusSet(404...404), honorsRetryAfter: false,
            isMetricsOnly: true)
        #expect(settings == expected)
    }

    @Test("Omitted settings have their defaults")
    func omittedSettingsHaveDefaults() throws {
        #expect(try breaker("{}") == BreakerSettings())
    }

    @Test("The default minimum number of calls never exceeds the window")
    func smallWindow() throws {
        #expect(try breaker("{ window_calls: 10 }").minimumCalls == 10)
        #expect(try breaker("{ window_calls: 1000 }").minimumCalls == BreakerSettings().minimumCalls)
    }

    @Test("Statuses can be a single code, a range, a list or empty")
    func statusesAreReadInEveryForm() throws {
        #expect(try breaker("{ failures: 500 }").failureStatuses == StatusSet(500...500))
        #expect(try breaker("{ failures: 500..503 }").failureStatuses == StatusSet(500...503))
        #expect(try breaker("{ failures: [] }").failureStatuses == StatusSet())
    }
}

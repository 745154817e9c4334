import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Causes that trip a breaker, on a real Redis server")
struct BreakerCauseTests {
    private static func service(_ breaker: BreakerSettings) -> ServiceDefinition {
        ServiceDefinition(name: "catalog", breaker: breaker)
    }

    @Test("Consecutive failures trip the breaker, even if they are few and each sidecar has seen only some of them")
    func consecutiveFailuresTripBreaker() async throws {
        let settings = BreakerSettings(minimumCalls: 1000, consecutiveFailures: 4)
        try await Fleet.run(of: 2, services: [Self.service(settings)]) { fleet in
            for outcome in [Outcome.error, .error, .error, .ok] { try await fleet.report(fleet.sidecars[0], outcome) }
            // Outcomes count in the order in which they reach Redis.
            try await eventually(within: .seconds(10), "the fleet has counted the success") {
                try await fleet.breaker("calls") == "4"
            }
            for index in 0..<2 { try await fleet.report(fleet.sidecars[index], .error) }
            try await eventually(within: .seconds(10), "the fleet has counted two consecutive failures") {
                try await fleet.breaker("consecutive") == "2"
            }
            #expect(try await fleet.breaker("state") != "open")
            for index in 0..<2 { try await fleet.report(fleet.sidecars[index], .error) }
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("cause") == "consecutive")
        }
    }

    @Test("Statuses override outcomes: failures count even if reported OK, and ignored statuses do not even if reported ERROR")
    func statusesOverrideOutcomes() async throws {
        let settings = BreakerSettings(
            minimumCalls: 4, failureStatuses: StatusSet(500...599), ignoredStatuses: StatusSet(404...404))
        try await Fleet.run(services: [Self.service(settings)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<8 { try await fleet.report(sidecar, .error, status: 404) }
            #expect(try await sidecar.breaker(service: "catalog").state == .closed)
            for _ in 0..<4 { try await fleet.report(sidecar, .ok, status: 502) }
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("cause") == "failures")
        }
    }

    @Test("A window of calls evaluates the last calls, however long ago they were")
    func callWindow() async throws {
        let settings = BreakerSettings(failureRate: 0.6, window: .calls(20), minimumCalls: 20)
        try await Fleet.run(of: 2, services: [Self.service(settings)]) { fleet in
            // Redis counts reports that are sent together in any order, so each step waits for the previous one.
            for sidecar in fleet.sidecars {
                for _ in 0..<30 { try await fleet.report(sidecar, .ok) }
                try await eventually(within: .seconds(10), "the fleet has counted the success") {
                    try await fleet.breaker("consecutive") == "0"
                }
                try await fleet.report(sidecar, .error)
                try await eventually(within: .seconds(10), "the fleet has counted the failure") {
                    try await fleet.breaker("consecutive") == "1"
                }
            }
            #expect((20...22).contains(Int(try await fleet.breaker("calls")) ?? 0))
            // Failures in half of the window stay below the failure rate.
            for index in 0..<8 { try await fleet.report(fleet.sidecars[index % 2], .error) }
            #expect(try await fleet.breaker("state") != "open")
            for index in 0..<8 where try await fleet.sidecars[index % 2].breaker(service: "catalog").state == .closed {
                _ = try? await fleet.report(fleet.sidecars[index % 2], .error)
            }
            try await fleet.expect(.open)
        }
    }

    @Test("In metrics-only mode, rates are shown and only a forced state opens the breaker")
    func metricsOnlyBreakerOpensOnlyWhenForced() async throws {
        var settings = BreakerSettings(minimumCalls: 4, isMetricsOnly: true)
        settings.consecutiveFailures = 2
        let limit = LimitDefinition(name: "1m", limit: 12, window: .seconds(60))
        var service = Self.service(settings)
        service.limits = [limit]
        service.onLimit = LimitPolicy(action: .trip)
        service.probe = ProbeSettings(target: .tcp(host: "localhost", port: 1))
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<8 { try await fleet.report(sidecar, .error, status: 503, retryAfter: 60_000) }
            try await eventually(within: .seconds(10), "the rate is shown") {
                try await fleet.breaker("failure_rate") == "1.000"
            }
            #expect(try await sidecar.reportOutage(service: "catalog", .down(reason: "refused")) == .closed)
            for _ in 0..<8 { _ = try await sidecar.take(service: "catalog") }
            #expect(try await sidecar.breaker(service: "catalog").state == .closed)
            #expect(try await fleet.breaker("trips").isEmpty)
            #expect(try await sidecar.forceBreaker(service: "catalog", to: .open, by: "ops").state == .open)
        }
    }

    @Test("Outcomes are sent in few reports, whatever the rate of calls")
    func fewReports() async throws {
        let settings = BreakerSettings(failureRate: 0.9, minimumCalls: 10)
        try await Fleet.run(services: [Self.service(settings)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let before = await sidecar.status.redisCommandCount
            let start = ContinuousClock.now
            for index in 0..<3000 { try await fleet.report(sidecar, index.isMultiple(of: 2) ? .error : .ok) }
            let elapsed = ContinuousClock.now - start
            let commandCount = await sidecar.status.redisCommandCount - before
            // The limit is ten reports a second, plus those that are sent early and the sidecar's own upkeep.
            #expect(commandCount <= 10 * (elapsed.components.seconds + 1) + 12)
        }
    }
}

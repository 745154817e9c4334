import Interlock
import InterlockCore
import InterlockProcesses
import Testing

@Suite("Guarded calls of a Swift program", .timeLimit(.minutes(2)))
struct ServiceCallTests {
    private struct TestError: Error {}

    private static func service(
        slots: Int? = nil, limit: Int64 = 1000, onLimit: LimitPolicy = LimitPolicy(), window: Duration = .seconds(60),
        whenRedisIsDown: OutagePolicy = .local
    ) -> ServiceDefinition {
        var service = PermitTests.service(
            slots: slots, limits: [LimitDefinition(name: "own", limit: limit, window: window)], onLimit: onLimit,
            breaker: BreakerSettings(slowCall: .seconds(5), minimumCalls: 4, openFor: .seconds(30) ... .seconds(30)))
        service.whenRedisIsDown = whenRedisIsDown
        return service
    }

    private static func run(_ service: ServiceDefinition, _ body: (Services, Fleet) async throws -> Void) async throws {
        try await Fleet.run(services: [service]) { fleet in try await body(fleet.sidecars[0].services, fleet) }
    }

    /// Returns the error of a call whose operation must not run.
    private static func refusal(
        _ services: Services, service: String = "catalog", cost: Int = 1, wait: Duration? = nil
    ) async throws -> ServiceCallError {
        let error = await #expect(throws: ServiceCallError.self) {
            try await services.call(service, cost: cost, wait: wait) {
                Issue.record("a refused call was made")
            }
        }
        return try #require(error)
    }

    /// Waits until the breaker is open, because reports may still be in flight when a call returns.
    private static func waitUntilOpen(_ fleet: Fleet) async throws {
        try await eventually(within: .seconds(10), "the breaker is open") {
            try await fleet.sidecars[0].breaker(service: "catalog").state == .open
        }
    }

    @Test("A call returns its operation's result and frees its slot")
    func callReturnsOperationResultAndFreesSlot() async throws {
        try await Self.run(Self.service(slots: 1)) { services, _ in
            for number in 0..<3 {
                let value = try await services.call("catalog") { number }
                #expect(value == number)
            }
        }
    }

    @Test("The operation runs in its caller's isolation and may use values that are not sendable")
    @MainActor
    func isolation() async throws {
        final class Tally { var calls = 0 }
        let tally = Tally()
        try await Fleet.run(services: [Self.service()]) { fleet in
            try await fleet.sidecars[0].services.call("catalog") { tally.calls += 1 }
        }
        #expect(tally.calls == 1)
    }

    @Test("Errors are rethrown and trip the breaker, after which the call is not made")
    func errorsAreRethrownAndTripBreaker() async throws {
        try await Self.run(Self.service()) { services, fleet in
            for _ in 0..<4 {
                await #expect(throws: TestError.self) { try await services.call("catalog") { throw TestError() } }
            }
            try await Self.waitUntilOpen(fleet)
            let refusal = try await Self.refusal(services)
            #expect(refusal.code == .open)
            #expect(refusal.state == .open)
            #expect(refusal.retryAfter.map { $0 > .seconds(1) } == true)
        }
    }

    @Test("The judge decides: a value may be a failure, and an error may not be the service's fault")
    func judgeDecidesWhatIsFailure() async throws {
        try await Self.run(Self.service()) { services, fleet in
            for _ in 0..<8 {
                await #expect(throws: TestError.self) {
                    try await services.call("catalog", judgedBy: { _ in OutcomeReport(outcome: .ignore) }) { throw TestError() }
                }
            }
            let closed = try await fleet.sidecars[0].breaker(service: "catalog").state
            #expect(closed == .closed)
            for _ in 0..<4 {
                _ = try await services.call("catalog", judgedBy: { _ in OutcomeReport(outcome: .error) }) { 503 }
            }
            try await Self.waitUntilOpen(fleet)
        }
    }

    @Test("The call's latency is the time in the operation unless the judge returns another")
    func callLatencyIsOperationTime() async throws {
        try await Self.run(Self.service()) { services, fleet in
            for _ in 0..<4 {
                try await services.call(
                    "catalog", judgedBy: { _ in OutcomeReport(outcome: .ok, latencyMilliseconds: 6000) }, operation: {})
            }
            try await Self.waitUntilOpen(fleet)
            let cause = try await fleet.sidecars[0].breaker(service: "catalog").fleet.cause
            #expect(cause == "slow")
        }
    }

    @Test("A cancelled call frees its slot and reports no outcome of the service")
    func cancelled() async throws {
        try await Self.run(Self.service(slots: 1)) { services, fleet in
            for _ in 0..<6 {
                let (begun, begins) = AsyncStream.makeStream(of: Void.self)
                let caller = Task {
                    try await services.call("catalog") {
                        begins.finish()
                        // The operation runs until it is cancelled.
                        try await Task.sleep(for: .seconds(600))
                    }
                }
                for await _ in begun {}
                caller.cancel()
                await #expect(throws: CancellationError.self) { try await caller.value }
            }
            let state = try await fleet.sidecars[0].breaker(service: "catalog").state
            #expect(state == .closed)
            let inFlight = await fleet.sidecars[0].status.inFlightPermitCount
            #expect(inFlight == 0)
        }
    }

    @Test("A call cancelled while waiting is not made")
    func cancelledWait() async throws {
        try await Self.run(Self.service(limit: 1)) { services, _ in
            try await services.call("catalog") {}
            let caller = Task { try await services.call("catalog", wait: .seconds(50)) { Issue.record("it was made") } }
            caller.cancel()
            // The cancellation takes effect before or after the limit's decision.
            await #expect {
                try await caller.value
            } throws: { $0 is CancellationError || ($0 as? ServiceCallError)?.code == .limited }
        }
    }

    @Test("At the limit a call is refused with the retry time, or waits if its service is configured to")
    func limited() async throws {
        try await Self.run(Self.service(limit: 1)) { services, _ in
            try await services.call("catalog") {}
            let refusal = try await Self.refusal(services)
            #expect(refusal.code == .limited)
            #expect(refusal.retryAfter.map { $0 > .seconds(10) } == true)
        }
        let patient = LimitPolicy(action: .wait, maximumWait: .seconds(30))
        try await Self.run(Self.service(limit: 1, onLimit: patient, window: .milliseconds(200))) { services, _ in
            for _ in 0..<3 { try await services.call("catalog") {} }
        }
    }

    @Test("A call waits for up to its service's patience while a limit keeps the breaker open")
    func callWaitsUpToServicePatience() async throws {
        let policy = LimitPolicy(action: .trip, pause: .milliseconds(100) ... .milliseconds(200), maximumWait: .seconds(30))
        try await Self.run(Self.service(limit: 1, onLimit: policy, window: .milliseconds(100))) { services, _ in
            for _ in 0..<3 { try await services.call("catalog") {} }
        }
    }

    @Test("With all slots in use, a call is refused as busy, immediately or after its patience")
    func busy() async throws {
        try await Self.run(Self.service(slots: 1)) { services, _ in
            try await services.call("catalog") {
                let refusal = try await Self.refusal(services)
                #expect(refusal.code == .busy)
                let timedOut = try await Self.refusal(services, wait: .milliseconds(50))
                #expect(timedOut.code == .busy)
            }
            try await services.call("catalog") {}
        }
    }

    @Test("A service that is not configured and an impossible cost have their own errors")
    func invalid() async throws {
        try await Self.run(Self.service()) { services, _ in
            let unknown = try await Self.refusal(services, service: "nowhere")
            #expect(unknown.code == .unknownService)
            let free = try await Self.refusal(services, cost: 0)
            #expect(free.code == .invalid)
            let tooMuch = try await Self.refusal(services, cost: 1001)
            #expect(tooMuch.code == .invalid)
            #expect(tooMuch.message.contains("can never be granted"))
        }
    }

    @Test("Without Redis, a call fails as unavailable if its service's outage policy denies calls, and is made otherwise")
    func redisIsUnreachable() async throws {
        for policy in [OutagePolicy.deny, .allow] {
            try await Self.run(Self.service(whenRedisIsDown: policy)) { services, fleet in
                await fleet.server.kill()
                try await eventually(within: .seconds(10), "the outage is noticed") { await !fleet.sidecars[0].status.isRedisUp }
                guard policy == .deny else {
                    try await services.call("catalog") {}
                    return
                }
                let refusal = try await Self.refusal(services)
                #expect(refusal.code == .unavailable)
            }
        }
    }
}

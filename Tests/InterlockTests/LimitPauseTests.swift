import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Waiting while a limit keeps the breaker open", .timeLimit(.minutes(2)))
struct LimitPauseTests {
    /// Returns a service whose window is long enough to be used up even on a slow machine.
    private static func service(
        limit: Int64 = 2, window: Duration = .seconds(2),
        pause: ClosedRange<Duration> = .milliseconds(200) ... .milliseconds(300), maximumWaiting: Int = 1000
    ) -> ServiceDefinition {
        PermitTests.service(
            limits: [LimitDefinition(name: "short", limit: limit, window: window)],
            onLimit: LimitPolicy(action: .trip, pause: pause, maximumWaiting: maximumWaiting))
    }

    private static let longPause = service(pause: .seconds(40) ... .seconds(40))

    private static func expect(_ state: BreakerSnapshot.State, in sidecar: Coordinator) async throws {
        try await eventually(within: .seconds(10), "the breaker is \(state.rawValue)") {
            try await sidecar.breaker(service: "catalog").fleet.state == state
        }
    }

    /// Uses up the limit.
    private static func reachLimit(_ sidecar: Coordinator) async throws {
        for _ in 0..<2 { _ = try await PermitTests.permit(sidecar) }
    }

    @Test("When a limit is reached the breaker opens, half-opens after the pause, the call is sent again, and the breaker closes")
    func sentAgain() async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            try await Self.reachLimit(fleet.sidecars[0])
            _ = try await PermitTests.permit(fleet.sidecars[1], wait: 30_000)
            try await Self.expect(.closed, in: fleet.sidecars[1])
            let history = try await fleet.cli("XRANGE", "interlock:breaker:{catalog}:history", "-", "+").array ?? []
            let states = history.compactMap { entry -> String? in
                let fields = entry.array?.last?.array?.compactMap(\.text) ?? []
                return fields.firstIndex(of: "to").map { fields[$0 + 1] }
            }
            #expect(states == ["open", "half_open", "closed"])
        }
    }

    @Test("Many waiting calls are all sent eventually, one window's capacity at a time")
    func manyWaitingCallsAreSentEventually() async throws {
        let service = Self.service(window: .milliseconds(200), pause: .milliseconds(50) ... .milliseconds(100))
        try await Fleet.run(of: 2, services: [service]) { fleet in
            let grantedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for call in 0..<12 {
                    group.addTask { try await PermitTests.refusal(fleet.sidecars[call % 2], wait: 50_000) == nil }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(grantedCount == 12)
        }
    }

    @Test("A call that cannot wait out the pause is refused immediately, with the time when the pause ends")
    func tooLong() async throws {
        try await Fleet.run(services: [Self.longPause]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let begun = ContinuousClock.now
            // The first call reaches the limit, the second finds the breaker that the limit has opened.
            for _ in 0..<2 {
                let refusal = try #require(try await PermitTests.refusal(sidecar, wait: 20_000))
                #expect(refusal.reason == .open)
                #expect(refusal.retryAfter > 20_000)
            }
            #expect(begun.duration(to: .now) < .seconds(15))
        }
    }

    @Test("A wait that the limit alone makes too long is refused immediately, with the time when capacity returns")
    func hopelessLimit() async throws {
        try await Fleet.run(services: [Self.service(window: .seconds(60))]) { fleet in
            try await Self.reachLimit(fleet.sidecars[0])
            let refusal = try #require(try await PermitTests.refusal(fleet.sidecars[0], wait: 10_000))
            #expect(refusal.reason == .limited)
            #expect(refusal.retryAfter > 30_000)
        }
    }

    @Test("The queue is limited")
    func queueIsLimited() async throws {
        let service = Self.service(pause: .seconds(40) ... .seconds(40), maximumWaiting: 1)
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let waiter = Task { try await PermitTests.permit(sidecar, wait: 55_000) }
            try await Self.expect(.open, in: sidecar)
            let refusal = try await PermitTests.refusal(sidecar, wait: 55_000)
            #expect(refusal?.reason == .open)
            waiter.cancel()
            _ = await waiter.result
        }
    }

    @Test("When another cause opens the breaker meanwhile, waiting calls are refused immediately")
    func otherCause() async throws {
        try await Fleet.run(services: [Self.longPause]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let waiter = Task { try await PermitTests.refusal(sidecar, wait: 55_000)?.reason }
            try await Self.expect(.open, in: sidecar)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "test")
            let reason = try await waiter.value
            #expect(reason == .open)
        }
    }

    @Test("When an operator closes the breaker, waiting calls are sent immediately")
    func closedByHand() async throws {
        try await Fleet.run(services: [Self.longPause]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let waiter = Task { try await PermitTests.permit(sidecar, wait: 55_000) }
            try await Self.expect(.open, in: sidecar)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .closed, by: "test")
            _ = try await waiter.value
        }
    }

    @Test("A call that gives up is not sent when the pause is over")
    func givesUp() async throws {
        try await Fleet.run(services: [Self.service(pause: .milliseconds(500) ... .milliseconds(500))]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let leaver = Task { try await PermitTests.permit(sidecar, wait: 55_000) }
            try await Self.expect(.open, in: sidecar)
            leaver.cancel()
            await #expect(throws: CancellationError.self) { try await leaver.value }
            // No caller makes a trial, so the breaker stays half-open.
            try await Self.expect(.halfOpen, in: sidecar)
            try await eventually(within: .seconds(10), "the window is over, and no call was counted in another") {
                try await fleet.cli("EXISTS", "interlock:rate:{catalog}:short").integer == 0
            }
            try await Self.expect(.halfOpen, in: sidecar)
            _ = try await PermitTests.permit(sidecar)
        }
    }

    @Test("A call that does not wait is refused while the breaker is open")
    func withoutWait() async throws {
        try await Fleet.run(services: [Self.longPause]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let limited = try await PermitTests.refusal(sidecar)
            #expect(limited?.reason == .limited)
            try await Self.expect(.open, in: sidecar)
            let open = try await PermitTests.refusal(sidecar)
            #expect(open?.reason == .open)
        }
    }

    @Test("Waiting calls are answered when the sidecar shuts down")
    func shutsDown() async throws {
        try await Fleet.run(services: [Self.longPause]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await Self.reachLimit(sidecar)
            let waiter = Task { try await PermitTests.permit(sidecar, wait: 55_000) }
            try await Self.expect(.open, in: sidecar)
            await sidecar.drain()
            let error = await #expect(throws: InterlockError.self) { try await waiter.value }
            #expect(error?.code == .unavailable)
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Breakers recover from any change, on a real Redis server", .timeLimit(.minutes(2)))
struct BreakerRecoveryTests {
    @Test("A half-open breaker closes if a reload requires fewer trials than have already succeeded")
    func fewerTrials() async throws {
        let open = Duration.milliseconds(100)
        try await Fleet.run(services: [BreakerTests.service(open: open, permits: 3)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            try await fleet.report(sidecar, .ok)
            try await sidecar.reload(services: [BreakerTests.service(open: open, permits: 1)])
            _ = try await fleet.permit(sidecar)
            try await fleet.expect(.closed)
        }
    }

    @Test("After the Redis clock is set back, a breaker stays open for no longer than its open time")
    func clockSetBack() async throws {
        try await Fleet.run(services: [BreakerTests.service(open: .seconds(2))]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            for field in ["since", "until"] {
                try await fleet.cli("HINCRBY", "interlock:breaker:{catalog}", field, "3600000")
            }
            try await eventually(within: .seconds(30), "the breaker is half-open") {
                try await fleet.breaker("state") == "half_open"
            }
        }
    }

    @Test("A breaker opened by a limit closes even after that limit was removed from the configuration")
    func removedLimit() async throws {
        let limit = LimitDefinition(name: "1m", limit: 1, window: .seconds(60))
        let policy = LimitPolicy(action: .trip, pause: .milliseconds(200) ... .milliseconds(200))
        try await Fleet.run(services: [BreakerTests.service(limits: [limit], onLimit: policy)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<2 { _ = try await sidecar.take(service: "catalog") }
            try await fleet.expect(.open)
            try await sidecar.reload(services: [BreakerTests.service()])
            try await eventually("a call closes the breaker") {
                _ = try await sidecar.acquirePermit(service: "catalog")
                return try await sidecar.breaker(service: "catalog").fleet.state == .closed
            }
        }
    }

    @Test("A limit does not take over a breaker that is half-open for another cause")
    func limitInHalfOpen() async throws {
        let limit = LimitDefinition(name: "1m", limit: 4, window: .seconds(60))
        let policy = LimitPolicy(action: .trip, pause: .milliseconds(10) ... .milliseconds(10))
        let service = BreakerTests.service(open: .milliseconds(100), limits: [limit], onLimit: policy)
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await eventually(within: .seconds(10), "the breaker is half-open") {
                try await sidecar.breaker(service: "catalog").fleet.state == .halfOpen
            }
            #expect(try await !sidecar.take(service: "catalog").isAllowed)
            // Any command that the limit had sent would have been answered before this call.
            guard case .refused(.limited, _, _) = try await sidecar.acquirePermit(service: "catalog") else {
                Issue.record("the limit did not refuse")
                return
            }
            #expect(try await fleet.breaker("state") == "half_open")
            #expect(try await fleet.breaker("cause") == "failures")
        }
    }

    @Test("Redis receives few trial requests, however many calls arrive in half-open")
    func fewTrialRequests() async throws {
        try await Fleet.run(services: [BreakerTests.service(open: .milliseconds(100), permits: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            let before = await sidecar.status.redisCommandCount
            let start = ContinuousClock.now
            let grantedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<1000 {
                    group.addTask {
                        if case .granted = try await sidecar.acquirePermit(service: "catalog") { true } else { false }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            let elapsed = ContinuousClock.now - start
            let commandCount = await sidecar.status.redisCommandCount - before
            #expect(grantedCount == 1)
            #expect(commandCount <= 20 * (elapsed.components.seconds + 1) + 12)
        }
    }

    @Test("An answer that arrives after its service was removed schedules nothing")
    func answerAfterReload() async throws {
        let other = ServiceDefinition(name: "other")
        try await Fleet.run(services: [BreakerTests.service(), other]) { fleet in
            let sidecar = fleet.sidecars[0]
            let before = await sidecar.status.redisCommandCount
            await fleet.server.pause()
            let forcing = Task {
                try await sidecar.forceBreaker(service: "catalog", to: .open, forMilliseconds: 100, by: "ops")
            }
            try await eventually(within: .seconds(10), "the forced state was sent") {
                await sidecar.status.redisCommandCount > before
            }
            try await sidecar.reload(services: [other])
            await fleet.server.resume()
            _ = await forcing.result
            _ = try await sidecar.forceBreaker(service: "other", to: .open, forMilliseconds: 500, by: "ops")
            try await eventually(within: .seconds(10), "the first forced state would have ended") {
                try await sidecar.breaker(service: "other").fleet.forced == nil
            }
        }
    }
}

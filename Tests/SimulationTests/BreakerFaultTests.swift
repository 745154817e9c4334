import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Regression tests for faults of breakers, permits and outages. Each test is the shortest story that shows one.
@Suite("Breakers and permits: regressions", .timeLimit(.minutes(2)))
struct BreakerFaultTests {
    private static let open: ClosedRange<Duration> = .seconds(1) ... .seconds(20)

    /// Makes calls that end with this outcome. Returns how many of them were permitted.
    private func call(
        _ count: Int, on stage: Stage, _ outcome: Outcome, through sidecar: Int = 0, every milliseconds: Int64 = 10
    ) -> Int {
        var through = 0
        for _ in 0..<count {
            if let permit = stage.result(of: stage.permit("api", through: sidecar))?.permit {
                through += 1
                _ = stage.result(of: stage.report(permit, of: "api", OutcomeReport(outcome: outcome), through: sidecar))
            }
            stage.run(milliseconds: milliseconds)
        }
        return through
    }

    @Test(
        "A vote that is not renewed lapses, so that sidecars with failures at different times do not trip the fleet's breaker",
        arguments: [false, true])
    func voteLapses(isInTime: Bool) throws {
        var service = ServiceDefinition(
            name: "api", breaker: BreakerSettings(minimumCalls: 4, reporters: 2, openFor: Self.open, halfOpenPermits: 1))
        service.breaker.window = .time(.seconds(5))
        let stage = Stage(sidecars: 3, services: [service])
        #expect(call(5, on: stage, .error, through: 0) == 4)
        #expect(stage.cli("ZCARD", "interlock:breaker:{api}:votes") == ":1")
        stage.run(milliseconds: isInTime ? 4000 : 5000)
        #expect(call(5, on: stage, .error, through: 1) == 4)
        stage.run(milliseconds: 50)
        #expect(
            (0..<3).map { stage.breaker("api", at: $0)?.fleet.state } == Array(repeating: isInTime ? .open : .closed, count: 3))
        #expect(stage.breaker("api", at: 1)?.state == .open)
        guard !isInTime else { return }
        // Each sidecar probes the service independently.
        stage.run(milliseconds: 1500)
        for sidecar in 0..<2 {
            #expect(call(2, on: stage, .ok, through: sidecar) == 2)
            #expect(stage.breaker("api", at: sidecar)?.state == .closed)
        }
    }

    @Test("A call that waits at a limit holds no trial, so that healthy calls close the breaker")
    func trialAtALimit() throws {
        let service = ServiceDefinition(
            name: "api",
            limits: [LimitDefinition(name: "each", limit: 1, window: .seconds(30), isPerSubject: true)],
            breaker: BreakerSettings(minimumCalls: 4, openFor: Self.open, halfOpenPermits: 3))
        let stage = Stage(services: [service])
        // One tenant has exhausted its limit.
        _ = stage.result(of: stage.take("api", subject: "exhausted"))
        for number in 0..<4 {
            let permit = try #require(stage.result(of: stage.permit("api", subject: "bad-\(number)"))?.permit)
            _ = stage.result(of: stage.report(permit, of: "api", OutcomeReport(outcome: .error)))
        }
        stage.run(milliseconds: 50)
        #expect(stage.breaker("api")?.state == .open)
        stage.run(milliseconds: 1300)
        for _ in 0..<4 { _ = stage.permit("api", subject: "exhausted", waitMilliseconds: 60_000) }
        stage.run(milliseconds: 50)
        for number in 0..<8 {
            if let permit = stage.result(of: stage.permit("api", subject: "good-\(number)"))?.permit {
                _ = stage.result(of: stage.report(permit, of: "api", OutcomeReport(outcome: .ok)))
            }
            stage.run(milliseconds: 110)
        }
        #expect(stage.breaker("api")?.state == .closed)
    }

    @Test("A call that waits for a slot holds no trial")
    func trialWhileWaitingForASlot() throws {
        let service = ServiceDefinition(
            name: "api", concurrency: 1,
            breaker: BreakerSettings(minimumCalls: 4, openFor: Self.open, halfOpenPermits: 1))
        let stage = Stage(sidecars: 2, services: [service])
        // A long call occupies the first sidecar's only slot.
        _ = try #require(stage.result(of: stage.permit("api"))?.permit)
        _ = call(4, on: stage, .error, through: 1)
        #expect(stage.breaker("api", at: 1)?.state == .open)
        stage.run(milliseconds: 1300)
        _ = stage.permit("api", waitMilliseconds: 60_000)
        stage.run(milliseconds: 100)
        #expect(call(3, on: stage, .ok, through: 1, every: 110) >= 1)
        #expect(stage.breaker("api", at: 1)?.state == .closed)
    }

    @Test("A call that waits for a slot does not take from a limit before it has the slot")
    func limitWhileWaitingForASlot() throws {
        let service = ServiceDefinition(
            name: "api", limits: [LimitDefinition(name: "hour", limit: 3, window: .seconds(3600))], concurrency: 1)
        let stage = Stage(services: [service])
        let first = try #require(stage.result(of: stage.permit("api"))?.permit)
        let waiting = stage.permit("api", waitMilliseconds: 60_000)
        stage.run(milliseconds: 100)
        #expect(waiting.result == nil)
        #expect(stage.cli("GET", "interlock:rate:{api}:hour") == "$1 1")
        _ = stage.result(of: stage.report(first, of: "api", OutcomeReport(outcome: .ok)))
        let second = try #require(stage.result(of: waiting)?.permit)
        #expect(stage.cli("GET", "interlock:rate:{api}:hour") == "$1 2")
        // The limit is exhausted meanwhile, so the call gives up its slot and waits at the limit.
        let late = stage.permit("api", waitMilliseconds: 5000)
        _ = stage.result(of: stage.take("api"))
        _ = stage.result(of: stage.report(second, of: "api", OutcomeReport(outcome: .ok)))
        #expect(try #require(stage.result(of: late)).permit == nil)
        #expect(stage.status()?.inFlightPermitCount == 0)
    }

    @Test("A call that gets a slot while a limit is used up waits at the limit and gives up the slot")
    func slotWithoutCapacity() throws {
        let service = ServiceDefinition(
            name: "api", limits: [LimitDefinition(name: "10s", limit: 2, window: .seconds(10))], concurrency: 1)
        let stage = Stage(services: [service])
        let first = try #require(stage.result(of: stage.permit("api"))?.permit)
        let waiting = (0..<5).map { _ in stage.permit("api", waitMilliseconds: 60_000) }
        stage.run(milliseconds: 100)
        _ = stage.result(of: stage.take("api"))
        // The refusal is remembered.
        _ = stage.result(of: stage.take("api"))
        _ = stage.result(of: stage.report(first, of: "api", OutcomeReport(outcome: .ok)))
        var reported = Set<Int>()
        let allGranted = stage.run(upToMilliseconds: 59_000) {
            for (index, answer) in waiting.enumerated() where !reported.contains(index) {
                guard let permit = answer.result?.permit else { continue }
                reported.insert(index)
                _ = stage.report(permit, of: "api", OutcomeReport(outcome: .ok))
            }
            return reported.count == waiting.count
        }
        #expect(allGranted)
        // Each window admits two calls.
        #expect((20_000...32_000).contains(stage.milliseconds))
    }

    @Test("A call that a limit grants after the breaker has opened again is refused")
    func openedMeanwhile() throws {
        let service = ServiceDefinition(
            name: "api", limits: [LimitDefinition(name: "3s", limit: 1, window: .seconds(3))],
            breaker: BreakerSettings(
                consecutiveFailures: 1, openFor: .milliseconds(100) ... .seconds(60), halfOpenPermits: 2))
        let stage = Stage(services: [service])
        let bad = try #require(stage.result(of: stage.permit("api"))?.permit)
        _ = stage.result(of: stage.report(bad, of: "api", OutcomeReport(outcome: .error)))
        stage.run(milliseconds: 3500)
        let first = try #require(stage.result(of: stage.permit("api"))?.permit)
        let second = stage.permit("api", waitMilliseconds: 20_000)
        stage.run(milliseconds: 100)
        #expect(second.result == nil)
        let report = OutcomeReport(outcome: .error, status: 503, retryAfterMilliseconds: 60_000)
        _ = stage.result(of: stage.report(first, of: "api", report))
        guard case .refused(.open, _, _)? = stage.result(of: second) else { return #expect(Bool(false), "it was permitted") }
        stage.run(milliseconds: 100)
        #expect(stage.result(of: stage.take("api"))?.isAllowed == true)
    }

    @Test("A trial is returned if its call finds no slot")
    func trialWithoutASlot() throws {
        let service = ServiceDefinition(
            name: "api", limits: [LimitDefinition(name: "all", limit: 1000, window: .seconds(1))], concurrency: 1,
            breaker: BreakerSettings(minimumCalls: 4, openFor: Self.open, halfOpenPermits: 1))
        let stage = Stage(sidecars: 2, services: [service])
        _ = try #require(stage.result(of: stage.permit("api"))?.permit)
        _ = call(4, on: stage, .error, through: 1)
        stage.run(milliseconds: 1300)
        // The trial is assigned to a sidecar without a free slot.
        _ = stage.result(of: stage.permit("api"))
        stage.run(milliseconds: 110)
        #expect(call(3, on: stage, .ok, through: 1, every: 110) >= 1)
        #expect(stage.breaker("api", at: 1)?.state == .closed)
    }

    @Test("After Redis lost its data, an outage report does not erase a forced state")
    func forcedSurvives() throws {
        let service = ServiceDefinition(
            name: "api", upstream: nil, probe: ProbeSettings(target: .tcp(host: "localhost", port: 1), unhealthyAfter: 1))
        let stage = Stage(sidecars: 2, services: [service])
        _ = stage.result(of: stage.force("api", to: .closed))
        stage.run(milliseconds: 100)
        stage.redis.wipe()
        _ = stage.result(of: stage.reportOutage("api", .down(reason: "gone")))
        stage.run(milliseconds: 1000)
        for sidecar in 0..<2 {
            #expect(stage.breaker("api", at: sidecar)?.fleet.forced == .closed)
            #expect(stage.breaker("api", at: sidecar)?.state == .closed)
        }
    }

    @Test("A state forced after Redis lost its data stays in effect even if its clock had been ahead")
    func forcedAfterwards() throws {
        let stage = Stage(sidecars: 2, services: [ServiceDefinition(name: "api")])
        stage.redis.setClock(aheadByMilliseconds: 86_400_000)
        _ = stage.result(of: stage.force("api", to: .open))
        stage.run(milliseconds: 100)
        stage.redis.setClock(aheadByMilliseconds: 0)
        stage.redis.wipe()
        _ = stage.result(of: stage.force("api", to: .disabled))
        stage.run(milliseconds: 12_000)
        for sidecar in 0..<2 { #expect(stage.breaker("api", at: sidecar)?.fleet.forced == .disabled) }
    }

    @Test("A service whose callers forget to report makes no other service busy")
    func unreportedPermits() throws {
        let stage = Stage(services: [ServiceDefinition(name: "api"), ServiceDefinition(name: "other")])
        let answers = (0...25_000).map { _ in stage.permit("api") }
        stage.run(milliseconds: 10)
        #expect(answers.count { $0.result?.permit != nil } == 25_000)
        guard case .refused(.busy, _, _)? = stage.result(of: stage.permit("api")) else {
            return #expect(Bool(false), "a permit beyond the maximum was granted")
        }
        #expect(stage.result(of: stage.permit("other"))?.permit != nil)
    }

    @Test("Sidecars with different windows, as in a rolling reload, do not erase each other's sums")
    func windowsDiffer() throws {
        func service(_ window: Duration) -> ServiceDefinition {
            ServiceDefinition(name: "api", breaker: BreakerSettings(window: .time(window), minimumCalls: 20, openFor: Self.open))
        }
        let stage = Stage(sidecars: 2, services: [service(.seconds(10))])
        stage.sidecars[1].reload([service(.seconds(20))])
        stage.run(milliseconds: 100)
        for _ in 0..<100 {
            _ = call(1, on: stage, .error, every: 20)
            _ = call(1, on: stage, .error, through: 1, every: 20)
        }
        #expect(stage.breaker("api")?.state != .closed)
        #expect(stage.breaker("api", at: 1)?.state != .closed)
    }

    @Test(
        "A breaker that a sidecar opens locally tries one call at a time and stays open longer each time",
        arguments: [false, true])
    func localBreaker(isRedisUnreachable: Bool) throws {
        let service = ServiceDefinition(
            name: "api",
            breaker: BreakerSettings(
                minimumCalls: 10, reporters: isRedisUnreachable ? 1 : 2, openFor: .seconds(1) ... .seconds(8), halfOpenPermits: 1)
        )
        let stage = Stage(services: [service])
        if isRedisUnreachable {
            stage.path(of: 0).isBlackHole = true
            stage.run(milliseconds: 2000)
        }
        let first = call(20, on: stage, .error, every: 100)
        #expect((10...11).contains(first))
        // The calls fail for 20 seconds.
        let through = call(200, on: stage, .error, every: 100)
        #expect(through <= 6)
        stage.run(milliseconds: 9000)
        #expect(call(5, on: stage, .ok, every: 100) == 5)
        #expect(stage.breaker("api")?.state == .closed)
    }

    @Test("A Retry-After of an hour opens the breaker for at most open_for")
    func longPause() throws {
        let service = ServiceDefinition(name: "api", breaker: BreakerSettings(openFor: .seconds(1) ... .seconds(10)))
        let stage = Stage(services: [service])
        let permit = try #require(stage.result(of: stage.permit("api"))?.permit)
        let report = OutcomeReport(outcome: .error, status: 503, retryAfterMilliseconds: 3_600_000)
        _ = stage.result(of: stage.report(permit, of: "api", report))
        stage.run(milliseconds: 50)
        #expect(stage.breaker("api")?.state == .open)
        stage.run(milliseconds: 12_000)
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
    }

    @Test("A 429 for one subject's call pauses only that subject")
    func pausedSubject() throws {
        let service = ServiceDefinition(name: "api", breaker: BreakerSettings(openFor: .seconds(1) ... .seconds(10)))
        let stage = Stage(services: [service])
        let permit = try #require(stage.result(of: stage.permit("api", subject: "greedy"))?.permit)
        let report = OutcomeReport(outcome: .error, status: 429, retryAfterMilliseconds: 5000)
        _ = stage.result(of: stage.report(permit, of: "api", report))
        stage.run(milliseconds: 50)
        #expect(stage.breaker("api")?.state == .closed)
        #expect(stage.result(of: stage.permit("api", subject: "other"))?.permit != nil)
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
        guard case .refused(.limited, _, let retryAfter)? = stage.result(of: stage.permit("api", subject: "greedy")) else {
            return #expect(Bool(false), "it was permitted")
        }
        #expect((4000...5000).contains(retryAfter))
        stage.run(milliseconds: 5000)
        #expect(stage.result(of: stage.permit("api", subject: "greedy"))?.permit != nil)
    }
}

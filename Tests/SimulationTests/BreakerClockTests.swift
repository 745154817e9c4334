import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Regression tests for breakers while the Redis clock jumps. Sidecars measure the duration of a state by their own
/// clocks.
@Suite("Breakers and the fleet list while the Redis clock jumps", .timeLimit(.minutes(2)))
struct BreakerClockTests {
    private static func hash(_ field: String, on stage: Stage) -> String {
        stage.cli("HGET", "interlock:breaker:{api}", field).split(separator: " ", maxSplits: 1).last.map(String.init) ?? ""
    }

    private static func force(
        _ state: BreakerSnapshot.Forced, forMilliseconds length: Int64, on stage: Stage
    ) -> Stage.Call<Result<BreakerStatus, InterlockError>> {
        stage.startCall(0) { coordinator, completion in
            coordinator.forceBreaker(service: "api", to: state, forMilliseconds: length, by: "test", completion: completion)
            return nil
        }
    }

    /// Opens the breaker with one failed call.
    private static func trip(_ stage: Stage) throws {
        let permit = try #require(stage.result(of: stage.permit("api"))?.permit)
        _ = stage.result(of: stage.report(permit, of: "api", OutcomeReport(outcome: .error)))
        stage.run(milliseconds: 50)
        #expect(stage.breaker("api")?.state == .open)
    }

    private static func service(openFor seconds: Int64, permitLifetime: Int64 = 60_000) -> ServiceDefinition {
        ServiceDefinition(
            name: "api",
            breaker: BreakerSettings(
                consecutiveFailures: 1, openFor: .seconds(seconds) ... .seconds(seconds), halfOpenPermits: 1),
            permitLifetime: .milliseconds(permitLifetime))
    }

    @Test(
        "A breaker kept open by failing probes stays open when the Redis clock is set back, and callers get the remaining time",
        arguments: [20_000, 3_600_000] as [Int64])
    func outageAndBack(step: Int64) throws {
        let service = ServiceDefinition(
            name: "api", upstream: nil,
            probe: ProbeSettings(target: .tcp(host: "localhost", port: 1), interval: .seconds(1), timeout: .seconds(1)))
        let stage = Stage(sidecars: 2, services: [service])
        var isProbing = true
        func probe() {
            guard isProbing else { return }
            _ = stage.reportOutage("api", .down(reason: "gone"))
            stage.after(milliseconds: 1000) { probe() }
        }
        probe()
        stage.run(milliseconds: 30_000)
        stage.redis.setClock(aheadByMilliseconds: -step)
        for moment in 0..<300 {
            stage.run(milliseconds: 100)
            for sidecar in 0..<2 {
                #expect(
                    stage.breaker("api", at: sidecar)?.state == .open, "sidecar \(sidecar), \(moment * 100) ms after the jump")
            }
            guard moment % 10 == 5 else { continue }
            guard case .refused(.open, _, let retryAfter)? = stage.result(of: stage.permit("api")) else {
                return #expect(Bool(false), "a call was permitted")
            }
            #expect((500...5000).contains(retryAfter), "\(moment * 100) ms after the jump")
        }
        // The monitor stops. The breaker half-opens when its state lapses, without an extra delay of the clock's step.
        isProbing = false
        stage.run(milliseconds: 11_000)
        #expect(stage.breaker("api")?.fleet.state == .halfOpen)
    }

    @Test(
        "A forced state lasts until its end as sidecars measure it, whichever way the Redis clock jumps",
        arguments: [3_600_000, -3_600_000, 100_000, -100_000] as [Int64])
    func forcedToItsEnd(step: Int64) throws {
        let stage = Stage(sidecars: 3, services: [ServiceDefinition(name: "api")])
        stage.run(milliseconds: 200_000)
        let forced = stage.milliseconds
        _ = stage.result(of: Self.force(.open, forMilliseconds: 120_000, on: stage))
        stage.run(milliseconds: 30_000)
        stage.redis.setClock(aheadByMilliseconds: step)
        stage.run(milliseconds: 7000)
        // A new sidecar learns the remaining time.
        stage.sidecars[2].kill()
        stage.sidecars[2].start()
        while stage.milliseconds < forced + 118_000 {
            stage.run(milliseconds: 1000)
            for sidecar in 0..<3 where stage.milliseconds > forced + 40_000 {
                #expect(
                    stage.breaker("api", at: sidecar)?.state == .open,
                    "sidecar \(sidecar), \(stage.milliseconds - forced) ms after it was forced")
            }
        }
        stage.run(milliseconds: 8000)
        for sidecar in 0..<3 {
            #expect(stage.breaker("api", at: sidecar)?.state == .closed)
            #expect(stage.breaker("api", at: sidecar)?.fleet.forced == nil)
        }
        #expect(Self.hash("cause", on: stage) == "auto")
    }

    @Test("A sidecar that starts after the Redis clock was set forward does not half-open the others' tripped breaker")
    func newcomer() throws {
        let stage = Stage(sidecars: 2, services: [Self.service(openFor: 60)])
        try Self.trip(stage)
        let tripped = stage.milliseconds
        stage.run(milliseconds: 5000)
        stage.redis.setClock(aheadByMilliseconds: 3_600_000)
        stage.sidecars[1].kill()
        stage.run(milliseconds: 100)
        stage.sidecars[1].start()
        while stage.milliseconds < tripped + 55_000 {
            stage.run(milliseconds: 500)
            #expect(Self.hash("state", on: stage) == "open", "\(stage.milliseconds - tripped) ms after it tripped")
        }
        stage.run(milliseconds: 15_000)
        #expect(Self.hash("state", on: stage) == "half_open")
    }

    @Test(
        "An open breaker half-opens on time by the sidecars' clocks, although the Redis clock was set back",
        arguments: [5000, 3_600_000] as [Int64])
    func halfOpensInTime(step: Int64) throws {
        let stage = Stage(sidecars: 2, services: [Self.service(openFor: 20)])
        try Self.trip(stage)
        let tripped = stage.milliseconds
        stage.run(milliseconds: 10_000)
        stage.redis.setClock(aheadByMilliseconds: -step)
        stage.run(milliseconds: tripped + 19_000 - stage.milliseconds)
        #expect(Self.hash("state", on: stage) == "open")
        stage.run(milliseconds: 6500)
        #expect(Self.hash("state", on: stage) == "half_open")
    }

    @Test("A lone sidecar half-opens a breaker whose open time ended while no sidecar was running")
    func foundTooLate() throws {
        let stage = Stage(services: [Self.service(openFor: 20)])
        try Self.trip(stage)
        stage.sidecars[0].kill()
        stage.run(milliseconds: 60_000)
        stage.sidecars[0].start()
        stage.run(milliseconds: 15_000)
        #expect(Self.hash("state", on: stage) == "half_open")
    }

    @Test("A trial that is never reported frees its slot after the permit's lifetime, although the Redis clock was set back")
    func trialAndBack() throws {
        let stage = Stage(services: [Self.service(openFor: 1, permitLifetime: 2000)])
        try Self.trip(stage)
        stage.run(milliseconds: 62_000)
        #expect(Self.hash("state", on: stage) == "half_open")
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
        stage.redis.setClock(aheadByMilliseconds: -30_000)
        stage.run(milliseconds: 2500)
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
    }

    @Test("A dead sidecar is removed from the fleet list in time, although the Redis clock was set back")
    func deadSidecar() {
        let stage = Stage(sidecars: 3, services: [Self.service(openFor: 1)])
        stage.run(milliseconds: 7000)
        #expect(stage.cli("ZCARD", "interlock:fleet") == ":3")
        stage.sidecars[2].kill()
        stage.redis.setClock(aheadByMilliseconds: -3_600_000)
        stage.run(milliseconds: 21_000)
        #expect(stage.cli("ZCARD", "interlock:fleet") == ":2")
    }
}

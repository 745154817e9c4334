import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import RedisClient
import Testing

/// Tests known problems of other circuit breakers, with at least one test for each.
@Suite("What users of other breakers suffer from")
struct FieldBreakerTests {
    private static func service(
        reporters: Int = 1, open: Duration = .seconds(30), permits: Int = 1, lifetime: Duration = .seconds(60)
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "catalog",
            breaker: BreakerSettings(minimumCalls: 4, reporters: reporters, openFor: open...open, halfOpenPermits: permits),
            permitLifetime: lifetime)
    }

    /// Returns another connected sidecar of the fleet.
    private static func newcomer(_ fleet: Fleet, _ service: ServiceDefinition) async -> Coordinator {
        let configuration = InterlockConfiguration(redis: fleet.server.configuration, services: [service])
        let newcomer = Coordinator(
            configuration: configuration, eventLoop: fleet.sidecars[0].eventLoop,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        await newcomer.start()
        await newcomer.untilReady()
        return newcomer
    }

    @Test("field 1: the fleet shares one breaker: what some report, all act on, and nobody waits for another's call")
    func shared() async throws {
        try await Fleet.run(of: 4, services: [Self.service()]) { fleet in
            // This call stays in progress; a breaker that locked Redis meanwhile would block the other sidecars.
            let slow = try await fleet.permit(fleet.sidecars[3])
            for turn in 0..<4 { try await fleet.report(fleet.sidecars[turn % 3], .error) }
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("trips") == "1")
            // The call began before the trip, so its outcome says nothing about the present.
            let ended = try await fleet.sidecars[3].reportPermit(service: "catalog", permit: slow, OutcomeReport(outcome: .ok))
            #expect(ended == .open)
        }
    }

    @Test("field 1: asking a breaker, closed or open, costs Redis nothing")
    func freeToAsk() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            for forced in [BreakerSnapshot.Forced.closed, .open] {
                _ = try await sidecar.forceBreaker(service: "catalog", to: forced, by: "ops")
                let before = await sidecar.status.redisCommands
                for _ in 0..<1000 { _ = try await sidecar.acquirePermit(service: "catalog") }
                // The sidecar's own upkeep takes at most ten commands.
                #expect(await sidecar.status.redisCommands - before <= 10)
            }
        }
    }

    @Test("field 2: one bad sidecar trips for itself and for no other; as many as must see it trip for all")
    func reporters() async throws {
        try await Fleet.run(of: 3, services: [Self.service(reporters: 2)]) { fleet in
            for _ in 0..<4 { try await fleet.report(fleet.sidecars[0], .error) }
            #expect(try await fleet.sidecars[0].breaker(service: "catalog").state == .open)
            #expect(try await fleet.sidecars[0].breaker(service: "catalog").ownCause == "failures")
            try await eventually(within: .seconds(10), "the vote is in Redis") {
                try await fleet.cli("ZCARD", "interlock:breaker:{catalog}:votes").integer == 1
            }
            for sidecar in fleet.sidecars.dropFirst() {
                let state = try await fleet.report(sidecar, .ok)
                #expect(state == .closed)
            }
            for _ in 0..<5 where try await fleet.sidecars[1].breaker(service: "catalog").state == .closed {
                try await fleet.report(fleet.sidecars[1], .error)
            }
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("trips") == "1")
            #expect(try await fleet.cli("ZCARD", "interlock:breaker:{catalog}:votes").integer == 0)
        }
    }

    @Test("field 2: a new sidecar takes the breaker as it is and resets nothing, also with Redis wiped before it came")
    func newSidecar() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for _ in 0..<4 { try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            let known = try await fleet.sidecars[0].breaker(service: "catalog").fleet
            try await fleet.cli("FLUSHALL")
            let newcomer = await Self.newcomer(fleet, Self.service())
            try await eventually(within: .seconds(20), "the newcomer acts open") {
                try await newcomer.breaker(service: "catalog").state == .open
            }
            let restored = try await newcomer.breaker(service: "catalog").fleet
            #expect(restored.generation == known.generation)
            #expect(restored.streak == 1)
            #expect(restored.untilMilliseconds == known.untilMilliseconds)
            await newcomer.stop()
        }
    }

    @Test("field 2: how long it stays open the next time survives a wipe")
    func streakSurvives() async throws {
        var service = Self.service(open: .milliseconds(200))
        service.breaker.openFor = .milliseconds(200) ... .seconds(60)
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            #expect(try await fleet.report(sidecar, .error) == .open)
            try await fleet.cli("FLUSHALL")
            try await eventually(within: .seconds(20), "the state is in Redis again") {
                try await fleet.breaker("streak") == "2"
            }
        }
    }

    @Test("field 3: a trial whose caller never reports frees its place, also when its sidecar is gone")
    func halfOpenNeverWedges() async throws {
        let service = Self.service(open: .milliseconds(100), lifetime: .milliseconds(300))
        try await Fleet.run(services: [service]) { fleet in
            let doomed = await Self.newcomer(fleet, service)
            for _ in 0..<4 { try await fleet.report(fleet.sidecars[0], .error) }
            try await eventually(within: .seconds(10), "the doomed sidecar has the only trial") {
                if case .granted(_, .halfOpen) = try await doomed.acquirePermit(service: "catalog") { true } else { false }
            }
            await doomed.stop()
            try await eventually(within: .seconds(10), "the place is free") {
                guard case .granted(let id, _) = try await fleet.sidecars[0].acquirePermit(service: "catalog") else {
                    return false
                }
                let ok = OutcomeReport(outcome: .ok)
                return try await fleet.sidecars[0].reportPermit(service: "catalog", permit: id, ok) == .closed
            }
        }
    }

    @Test(
        "field 5: an upstream that says for how long it is away sets the open time",
        arguments: [(Outcome.error, 503), (.ok, 429), (.error, nil)] as [(Outcome, Int?)])
    func retryAfter(outcome: Outcome, status: Int?) async throws {
        try await Fleet.run(of: 2, services: [Self.service(open: .seconds(30))]) { fleet in
            let state = try await fleet.report(fleet.sidecars[0], outcome, status: status, retryAfter: 20_000)
            #expect(state == .open)
            try await fleet.expect(.open)
            let open = try await fleet.sidecars[1].breaker(service: "catalog").fleet
            #expect(open.cause == "retry_after")
            // The pause is never shorter than requested, and up to a tenth longer to spread out the fleet's calls.
            #expect((20_000...22_000).contains(open.untilMilliseconds - open.sinceMilliseconds))
        }
    }

    @Test("field 5: one call that is told to come again later is enough in half-open too")
    func retryAfterInHalfOpen() async throws {
        try await Fleet.run(services: [Self.service(open: .milliseconds(100))]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            #expect(try await fleet.report(sidecar, .error, status: 503, retryAfter: 20_000) == .open)
            #expect(try await fleet.breaker("cause") == "retry_after")
        }
    }

    @Test("field 5: when it is not honoured such a call is one like others")
    func retryAfterIsNotHonoured() async throws {
        var service = Self.service()
        service.breaker.honoursRetryAfter = false
        try await Fleet.run(services: [service]) { fleet in
            let state = try await fleet.report(fleet.sidecars[0], .error, status: 503, retryAfter: 20_000)
            #expect(state == .closed)
        }
    }

    @Test("field 5: with several reporters the one that was told waits alone")
    func retryAfterForOne() async throws {
        try await Fleet.run(of: 2, services: [Self.service(reporters: 2)]) { fleet in
            let first = try await fleet.report(fleet.sidecars[0], .error, status: 503, retryAfter: 20_000)
            let other = try await fleet.report(fleet.sidecars[1], .ok)
            let second = try await fleet.report(fleet.sidecars[1], .error, status: 429, retryAfter: 20_000)
            #expect([first, other, second] == [.open, .closed, .open])
            #expect(try await fleet.breaker("cause") == "retry_after")
        }
    }

    @Test("field 8: while Redis is away no call waits for it, and a service that fails is left alone by this sidecar")
    func redisIsUnreachable() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            try await eventually(within: .seconds(10), "the sidecar knows") { await !sidecar.status.isRedisUp }
            try await eventually(within: .seconds(10), "it has seen enough") {
                guard case .granted(let id, _) = try await sidecar.acquirePermit(service: "catalog") else { return true }
                let began = ContinuousClock.now
                _ = try await sidecar.reportPermit(service: "catalog", permit: id, OutcomeReport(outcome: .error))
                #expect(ContinuousClock.now - began < .seconds(5))
                return false
            }
            #expect(try await sidecar.breaker(service: "catalog").ownCause == "failures")
            #expect(try await sidecar.breaker(service: "catalog").state == .open)
        }
    }

    @Test("field 8: when Redis is back the fleet's word counts again")
    func redisIsBack() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "ops")
            try await fleet.server.restart(keepingData: false)
            try await eventually(within: .seconds(20), "what the fleet knew is in Redis again") {
                (try? await fleet.breaker("forced")) == "open"
            }
            #expect(try await sidecar.breaker(service: "catalog").state == .open)
        }
    }
}

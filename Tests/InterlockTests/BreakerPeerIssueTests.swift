import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import RedisClient
import Testing

/// Tests that known problems of other circuit breakers do not occur.
@Suite("Known problems of other circuit breakers")
struct BreakerPeerIssueTests {
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
        await newcomer.waitUntilReady()
        return newcomer
    }

    @Test("The fleet shares one breaker: reports of some sidecars apply to all, and no sidecar blocks another")
    func fleetSharesOneBreaker() async throws {
        try await Fleet.run(of: 4, services: [Self.service()]) { fleet in
            // This call stays in progress; a breaker that locked Redis meanwhile would block the other sidecars.
            let slow = try await fleet.permit(fleet.sidecars[3])
            for index in 0..<4 { try await fleet.report(fleet.sidecars[index % 3], .error) }
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("trips") == "1")
            // The call began before the trip, so its outcome does not count.
            let lateReport = try await fleet.sidecars[3].reportPermit(
                service: "catalog", permit: slow, OutcomeReport(outcome: .ok))
            #expect(lateReport == .open)
        }
    }

    @Test("Acquiring permits sends nothing to Redis, whether the breaker is closed or open")
    func localPermits() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            for forced in [BreakerSnapshot.Forced.closed, .open] {
                _ = try await sidecar.forceBreaker(service: "catalog", to: forced, by: "ops")
                let before = await sidecar.status.redisCommandCount
                for _ in 0..<1000 { _ = try await sidecar.acquirePermit(service: "catalog") }
                // The sidecar's own upkeep takes at most ten commands.
                #expect(await sidecar.status.redisCommandCount - before <= 10)
            }
        }
    }

    @Test("One bad sidecar trips only its own breaker, and enough reporters trip it for all")
    func oneBadSidecarTripsOnlyItsOwnBreaker() async throws {
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

    @Test("A new sidecar adopts the breaker and resets nothing, even if Redis lost all data before")
    func newSidecar() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for _ in 0..<4 { try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            let breaker = try await fleet.sidecars[0].breaker(service: "catalog").fleet
            try await fleet.cli("FLUSHALL")
            let newcomer = await Self.newcomer(fleet, Self.service())
            try await eventually(within: .seconds(20), "the newcomer's breaker is open") {
                try await newcomer.breaker(service: "catalog").state == .open
            }
            let restored = try await newcomer.breaker(service: "catalog").fleet
            #expect(restored.generation == breaker.generation)
            #expect(restored.streak == 1)
            #expect(restored.untilMilliseconds == breaker.untilMilliseconds)
            await newcomer.stop()
        }
    }

    @Test("The duration of the next opening survives the loss of all data")
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

    @Test("A trial whose caller never reports frees its slot even if its sidecar has stopped")
    func halfOpenNeverWedges() async throws {
        let service = Self.service(open: .milliseconds(100), lifetime: .milliseconds(300))
        try await Fleet.run(services: [service]) { fleet in
            let stopping = await Self.newcomer(fleet, service)
            for _ in 0..<4 { try await fleet.report(fleet.sidecars[0], .error) }
            try await eventually(within: .seconds(10), "the first sidecar has the only trial") {
                if case .granted(_, .halfOpen) = try await stopping.acquirePermit(service: "catalog") { true } else { false }
            }
            await stopping.stop()
            try await eventually(within: .seconds(10), "the slot is free") {
                guard case .granted(let id, _) = try await fleet.sidecars[0].acquirePermit(service: "catalog") else {
                    return false
                }
                let ok = OutcomeReport(outcome: .ok)
                return try await fleet.sidecars[0].reportPermit(service: "catalog", permit: id, ok) == .closed
            }
        }
    }

    @Test(
        "An upstream's Retry-After determines the open time",
        arguments: [(Outcome.error, 503), (.ok, 429), (.error, nil)] as [(Outcome, Int?)])
    func retryAfterDeterminesOpenTime(outcome: Outcome, status: Int?) async throws {
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

    @Test("One Retry-After in half-open opens the breaker again")
    func retryAfterInHalfOpen() async throws {
        try await Fleet.run(services: [Self.service(open: .milliseconds(100))]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            #expect(try await fleet.report(sidecar, .error, status: 503, retryAfter: 20_000) == .open)
            #expect(try await fleet.breaker("cause") == "retry_after")
        }
    }

    @Test("A Retry-After that is not honored does not change anything")
    func retryAfterIsIgnored() async throws {
        var service = Self.service()
        service.breaker.honorsRetryAfter = false
        try await Fleet.run(services: [service]) { fleet in
            let state = try await fleet.report(fleet.sidecars[0], .error, status: 503, retryAfter: 20_000)
            #expect(state == .closed)
        }
    }

    @Test("With several reporters required, a Retry-After opens only the breaker of the sidecar that received it")
    func retryAfterForOne() async throws {
        try await Fleet.run(of: 2, services: [Self.service(reporters: 2)]) { fleet in
            let first = try await fleet.report(fleet.sidecars[0], .error, status: 503, retryAfter: 20_000)
            let other = try await fleet.report(fleet.sidecars[1], .ok)
            let second = try await fleet.report(fleet.sidecars[1], .error, status: 429, retryAfter: 20_000)
            #expect([first, other, second] == [.open, .closed, .open])
            #expect(try await fleet.breaker("cause") == "retry_after")
        }
    }

    @Test("While Redis is unreachable no call waits for it, and this sidecar stops calling a failing service")
    func redisIsUnreachable() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            try await eventually(within: .seconds(10), "the sidecar knows that Redis is down") { await !sidecar.status.isRedisUp }
            try await eventually(within: .seconds(10), "the sidecar's breaker is open") {
                guard case .granted(let id, _) = try await sidecar.acquirePermit(service: "catalog") else { return true }
                let start = ContinuousClock.now
                _ = try await sidecar.reportPermit(service: "catalog", permit: id, OutcomeReport(outcome: .error))
                #expect(ContinuousClock.now - start < .seconds(5))
                return false
            }
            #expect(try await sidecar.breaker(service: "catalog").ownCause == "failures")
            #expect(try await sidecar.breaker(service: "catalog").state == .open)
        }
    }

    @Test("When Redis is back the fleet's state applies again")
    func redisReconnected() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "ops")
            try await fleet.server.restart(keepingData: false)
            try await eventually(within: .seconds(20), "the fleet's state is in Redis again") {
                (try? await fleet.breaker("forced")) == "open"
            }
            #expect(try await sidecar.breaker(service: "catalog").state == .open)
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Outages and breakers, on a real Redis server")
struct OutageReportTests {
    private static func service(
        every interval: Duration = .seconds(30), trial: Bool = false, from origin: ProbeSettings.Origin = .one
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "catalog", upstream: nil,
            breaker: BreakerSettings(minimumCalls: 2, openFor: .seconds(30) ... .seconds(30), halfOpenPermits: 1),
            probe: ProbeSettings(
                target: .tcp(host: "localhost", port: 1), interval: interval, timeout: .milliseconds(100),
                isFollowedByTrial: trial, origin: origin))
    }

    private static func historyLength(_ fleet: Fleet) async throws -> Int64 {
        try await fleet.cli("XLEN", "interlock:breaker:{catalog}:history").integer ?? -1
    }

    @Test("An outage opens the breaker for the whole fleet immediately, and its end closes it immediately")
    func downAndUp() async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            #expect(try await fleet.sidecars[0].reportOutage(service: "catalog", .down(reason: "refused")) == .open)
            try await fleet.expect(.open)
            #expect(try await fleet.breaker("cause") == "outage")
            #expect(try await fleet.breaker("reason") == "refused")
            #expect(try await fleet.sidecars[0].reportOutage(service: "catalog", .up) == .closed)
            try await fleet.expect(.closed)
            #expect(try await fleet.breaker("cause") == "probe")
        }
    }

    @Test("An outage that is reported again continues without another change of state")
    func extended() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.reportOutage(service: "catalog", .down(reason: "refused"))
            let first = try await sidecar.breaker(service: "catalog").fleet
            try await eventually(within: .seconds(5), "the outage has been extended") {
                _ = try await sidecar.reportOutage(service: "catalog", .down(reason: "timed out"))
                return try await sidecar.breaker(service: "catalog").fleet.untilMilliseconds > first.untilMilliseconds
            }
            let second = try await sidecar.breaker(service: "catalog").fleet
            #expect(second.generation == first.generation)
            #expect(second.trips == 1)
            #expect(second.reason == "timed out")
            #expect(try await Self.historyLength(fleet) == 1)
        }
    }

    @Test("An outage that is not reported again half-opens at its end and not before")
    func lapses() async throws {
        try await Fleet.run(of: 2, services: [Self.service(every: .milliseconds(100))]) { fleet in
            _ = try await fleet.sidecars[0].reportOutage(service: "catalog", .down(reason: "refused"))
            let open = try await fleet.sidecars[0].breaker(service: "catalog").fleet
            #expect(open.untilMilliseconds - open.sinceMilliseconds == 400)
            try await fleet.expect(.halfOpen)
            try await eventually(within: .seconds(5), "the breaker is half-open in Redis") {
                try await fleet.breaker("state") == "half_open"
            }
            let since = try #require(Int64(try await fleet.breaker("since")))
            #expect(since >= open.untilMilliseconds)
        }
    }

    @Test("A late report of an outage's end does nothing")
    func lateReportOfOutageEndDoesNothing() async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            _ = try await fleet.sidecars[0].reportOutage(service: "catalog", .down(reason: "refused"))
            try await fleet.expect(.open)
            // In Redis the breaker has opened again, which this sidecar does not know yet.
            let generation = try await fleet.sidecars[0].breaker(service: "catalog").fleet.generation
            try await fleet.cli("HSET", "interlock:breaker:{catalog}", "generation", "\(generation + 1)")
            #expect(try await fleet.sidecars[1].reportOutage(service: "catalog", .up) == .open)
            #expect(try await fleet.breaker("state") == "open")
            // The sidecar has learned of the new opening, so the repeated report counts.
            #expect(try await fleet.sidecars[1].reportOutage(service: "catalog", .up) == .closed)
        }
    }

    @Test("The end of an outage affects neither a breaker opened by failures nor a forced one")
    func otherCauses() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<2 { try await fleet.report(sidecar, .error) }
            try await fleet.expect(.open)
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .open)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "ops")
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .open)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .closed, by: "ops")
            #expect(try await sidecar.reportOutage(service: "catalog", .down(reason: "refused")) == .closed)
        }
    }

    @Test("An outage takes over a breaker opened by failures and does not shorten its open time")
    func takesOver() async throws {
        try await Fleet.run(services: [Self.service(every: .milliseconds(100))]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<2 { try await fleet.report(sidecar, .error) }
            try await fleet.expect(.open)
            let before = try await sidecar.breaker(service: "catalog").fleet
            #expect(try await sidecar.reportOutage(service: "catalog", .down(reason: "refused")) == .open)
            let after = try await sidecar.breaker(service: "catalog").fleet
            #expect(after.cause == "outage")
            #expect(after.untilMilliseconds == before.untilMilliseconds)
            #expect(after.trips == 1)
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .closed)
        }
    }

    @Test("With a trial configured, real calls decide")
    func trial() async throws {
        try await Fleet.run(services: [Self.service(trial: true)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.reportOutage(service: "catalog", .down(reason: "refused"))
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .halfOpen)
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .halfOpen)
            #expect(try await fleet.report(sidecar, .ok) == .closed)
        }
    }

    @Test("If every sidecar probes, the majority decides")
    func majority() async throws {
        try await Fleet.run(of: 3, services: [Self.service(from: .all)]) { fleet in
            try await fleet.waitUntilFleetIsKnown()
            let down = OutageFinding.down(reason: "refused")
            for _ in 0..<2 {
                let state = try await fleet.sidecars[0].reportOutage(service: "catalog", down)
                #expect(state == .closed)
            }
            #expect(try await fleet.sidecars[1].reportOutage(service: "catalog", down) == .open)
            try await fleet.expect(.open)
            #expect(try await fleet.sidecars[2].reportOutage(service: "catalog", .up) == .open)
            #expect(try await fleet.sidecars[0].reportOutage(service: "catalog", .up) == .closed)
            try await fleet.expect(.closed)
        }
    }

    @Test("While Redis is unreachable an outage opens the local breaker, and its end closes it")
    func withoutRedis() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            let state = try await sidecar.reportOutage(service: "catalog", .down(reason: "refused"))
            #expect(state == .open)
            #expect(try await sidecar.breaker(service: "catalog").ownCause == "outage")
            #expect(try await sidecar.breaker(service: "catalog").fleet.state == .closed)
            #expect(try await sidecar.reportOutage(service: "catalog", .up) == .closed)
        }
    }

    @Test("A service without a probe has no outages")
    func noProbe() async throws {
        try await Fleet.run(services: [ServiceDefinition(name: "catalog")]) { fleet in
            await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].reportOutage(service: "catalog", .down(reason: "refused"))
            }
        }
    }

    @Test(
        "A suspicion counts if another sidecar shares or seconds it, and seconding alone does not count",
        arguments: [true, false])
    func suspicion(isSeconded: Bool) async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            try await eventually(within: .seconds(20), "the sidecars know each other") {
                for sidecar in fleet.sidecars where await sidecar.status.fleet.count < 2 { return false }
                return true
            }
            let (first, second) = (fleet.sidecars[0], fleet.sidecars[1])
            #expect(try await second.reportOutage(service: "catalog", .seconded(reason: "refused")) == .closed)
            #expect(try await first.reportOutage(service: "catalog", .suspected(reason: "refused")) == .closed)
            #expect(try await first.reportOutage(service: "catalog", .seconded(reason: "refused")) == .closed)
            // Another sidecar finds the service healthy, which overrules the suspicion.
            #expect(try await second.reportOutage(service: "catalog", .up) == .closed)
            #expect(try await second.reportOutage(service: "catalog", .seconded(reason: "refused")) == .closed)
            #expect(try await first.reportOutage(service: "catalog", .suspected(reason: "refused")) == .closed)
            let other = isSeconded ? OutageFinding.seconded(reason: "refused") : .suspected(reason: "refused")
            #expect(try await second.reportOutage(service: "catalog", other) == .open)
        }
    }
}

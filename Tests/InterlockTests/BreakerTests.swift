import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Breakers on a real Redis server")
struct BreakerTests {
    static func service(
        open: Duration = .seconds(30), permits: Int = 2, lifetime: Duration = .seconds(60),
        limits: [LimitDefinition] = [], onLimit: LimitPolicy = LimitPolicy()
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "catalog", limits: limits, onLimit: onLimit,
            breaker: BreakerSettings(
                failureRate: 0.5, slowCall: .milliseconds(500), minimumCalls: 4, openFor: open...open, halfOpenPermits: permits),
            permitLifetime: lifetime)
    }

    @Test("Failures reported through two sidecars trip the breaker once for both")
    func tripsByFailures() async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            for index in 0..<4 { _ = try await fleet.report(fleet.sidecars[index % 2], .error) }
            try await fleet.expect(.open)
            for sidecar in fleet.sidecars {
                guard case .refused(.open, .open, let retryAfter) = try await sidecar.acquirePermit(service: "catalog") else {
                    Issue.record("an open breaker granted a permit")
                    continue
                }
                #expect((1...31_000).contains(retryAfter))
            }
            let hash = try await fleet.cli("HGETALL", "interlock:breaker:{catalog}").array?.compactMap(\.text) ?? []
            let fields = Dictionary(uniqueKeysWithValues: stride(from: 0, to: hash.count, by: 2).map { (hash[$0], hash[$0 + 1]) })
            #expect(fields["state"] == "open")
            #expect(fields["cause"] == "failures")
            #expect(fields["trips"] == "1")
            #expect(try await fleet.cli("XLEN", "interlock:breaker:{catalog}:history").integer == 1)
        }
    }

    @Test("The failure that trips the breaker is answered with `open`, however fast the earlier failures came")
    func tripIsReported() async throws {
        var service = Self.service()
        service.breaker.consecutiveFailures = 3
        service.breaker.minimumCalls = 1000
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<20 {
                var states: [BreakerSnapshot.State] = []
                for _ in 0..<3 { states.append(try await fleet.report(sidecar, .error)) }
                #expect(states == [.closed, .closed, .open])
                _ = try await sidecar.forceBreaker(service: "catalog", to: nil, by: "operator")
            }
        }
    }

    /// Counts are sent to Redis in batches, so no prefix of a sequence of outcomes may be enough to trip the breaker.
    @Test(
        "Successes or too few calls keep the breaker closed, and ignored outcomes do not count",
        arguments: [[Outcome]]([
            [.ok, .ok, .ok, .ok, .error, .error, .error], [.error, .error, .error, .ignore, .ignore, .ignore],
        ]))
    func staysClosed(outcomes: [Outcome]) async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for outcome in outcomes {
                let state = try await fleet.report(fleet.sidecars[0], outcome)
                #expect(state == .closed)
            }
        }
    }

    @Test("Slow calls trip the breaker by their own rate")
    func tripsBySlowCalls() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .ok, latency: 600) }
            try await fleet.expect(.open)
            #expect(try await fleet.sidecars[0].breaker(service: "catalog").fleet.cause == "slow")
        }
    }

    @Test("A breaker opened by slow calls is opened again by a slow trial")
    func slowTrial() async throws {
        try await Fleet.run(services: [Self.service(open: .milliseconds(200))]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .ok, latency: 600) }
            try await fleet.expect(.halfOpen)
            let trial = try await fleet.permit(fleet.sidecars[0])
            let slow = OutcomeReport(outcome: .ok, latencyMilliseconds: 600)
            #expect(try await fleet.sidecars[0].reportPermit(service: "catalog", permit: trial, slow) == .open)
        }
    }

    @Test("After its open time the breaker half-opens, grants its trials across the fleet and closes when all succeed")
    func closesAgain() async throws {
        try await Fleet.run(of: 2, services: [Self.service(open: .milliseconds(200))]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.halfOpen)
            let first = try await fleet.permit(fleet.sidecars[0])
            let second = try await fleet.permit(fleet.sidecars[1])
            for sidecar in fleet.sidecars {
                guard case .refused(.open, .halfOpen, _) = try await sidecar.acquirePermit(service: "catalog") else {
                    Issue.record("a third trial was granted")
                    continue
                }
            }
            let ok = OutcomeReport(outcome: .ok)
            #expect(try await fleet.sidecars[0].reportPermit(service: "catalog", permit: first, ok) == .halfOpen)
            #expect(try await fleet.sidecars[1].reportPermit(service: "catalog", permit: second, ok) == .closed)
            try await fleet.expect(.closed)
        }
    }

    @Test("One failed trial opens the breaker again, for longer")
    func opensAgain() async throws {
        var service = Self.service(open: .milliseconds(150))
        service.breaker.openFor = .milliseconds(150) ... .seconds(60)
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            let state = try await fleet.report(sidecar, .error)
            #expect(state == .open)
            let status = try await sidecar.breaker(service: "catalog").fleet
            #expect(status.untilMilliseconds - status.sinceMilliseconds >= 300)
            #expect(status.trips == 2)
        }
    }

    @Test("A trial that is never reported frees its slot")
    func lapsedTrial() async throws {
        let service = Self.service(open: .milliseconds(100), permits: 1, lifetime: .milliseconds(200))
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            _ = try await fleet.permit(sidecar)
            try await eventually(within: .seconds(10), "the lapsed trial's slot is free") {
                if case .granted = try await sidecar.acquirePermit(service: "catalog") { true } else { false }
            }
        }
    }

    @Test("A permit can be reported once, under its service's name, until it expires")
    func reportedOnce() async throws {
        try await Fleet.run(services: [Self.service(), ServiceDefinition(name: "other")]) { fleet in
            let sidecar = fleet.sidecars[0]
            let ok = OutcomeReport(outcome: .ok)
            let id = try await fleet.permit(sidecar)
            _ = try await sidecar.reportPermit(service: "catalog", permit: id, ok)
            await #expect(throws: InterlockError.self) { try await sidecar.reportPermit(service: "catalog", permit: id, ok) }
            let another = try await fleet.permit(sidecar)
            await #expect(throws: InterlockError.self) { try await sidecar.reportPermit(service: "other", permit: another, ok) }
        }
    }

    @Test("The limit trips the breaker for its pause, and a call that the limit grants afterwards closes the breaker")
    func tripsByLimit() async throws {
        let limit = LimitDefinition(name: "short", limit: 3, window: .milliseconds(300))
        let policy = LimitPolicy(action: .trip, pause: .milliseconds(400) ... .milliseconds(500))
        try await Fleet.run(of: 2, services: [Self.service(limits: [limit], onLimit: policy)]) { fleet in
            for _ in 0..<4 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            try await fleet.expect(.open)
            #expect(try await fleet.sidecars[1].breaker(service: "catalog").fleet.cause == "limit")
            try await fleet.expect(.halfOpen)
            #expect(try await fleet.sidecars[1].take(service: "catalog").isAllowed)
            try await fleet.expect(.closed)
            let history = try await fleet.cli("XRANGE", "interlock:breaker:{catalog}:history", "-", "+").array ?? []
            #expect(history.count == 3)
        }
    }

    @Test("A refused trial releases its slot")
    func trialRefusedByLimit() async throws {
        let limit = LimitDefinition(name: "1m", limit: 4, window: .seconds(60))
        try await Fleet.run(services: [Self.service(open: .milliseconds(100), permits: 1, limits: [limit])]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await fleet.report(sidecar, .error) }
            try await fleet.expect(.halfOpen)
            guard case .refused(.limited, _, _) = try await sidecar.acquirePermit(service: "catalog") else {
                Issue.record("the limit did not refuse")
                return
            }
            try await eventually(within: .seconds(5), "the trial's slot is free") {
                try await fleet.cli("ZCARD", "interlock:breaker:{catalog}:trials").integer == 0
            }
        }
    }

    @Test("A forced state holds for the fleet until AUTO", arguments: BreakerSnapshot.Forced.allCases)
    func forcedStateHoldsUntilEnded(state: BreakerSnapshot.Forced) async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: state, by: "ops")
            try await fleet.expect(state == .open ? .open : .closed)
            if state != .open {
                for _ in 0..<6 { _ = try await fleet.report(fleet.sidecars[1], .error) }
                try await fleet.expect(.closed)
            }
            #expect(try await fleet.cli("HGET", "interlock:breaker:{catalog}", "forced").text == state.rawValue)
            #expect(try await fleet.cli("HGET", "interlock:breaker:{catalog}", "by").text?.hasSuffix("ops") == true)
            _ = try await fleet.sidecars[1].forceBreaker(service: "catalog", to: nil, by: "ops")
            try await fleet.expect(.closed)
            try await eventually(within: .seconds(5), "no state is forced") {
                try await fleet.sidecars[0].breaker(service: "catalog").fleet.forced == nil
            }
        }
    }

    @Test("After Redis lost all data the sidecars restore the state and agree, and the generation does not fall")
    func wipedStateIsRestored() async throws {
        try await Fleet.run(of: 2, services: [Self.service()]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            let before = try await fleet.sidecars[1].breaker(service: "catalog").fleet.generation
            try await fleet.cli("FLUSHALL")
            try await eventually(within: .seconds(10), "the state is in Redis again") {
                try await fleet.cli("HGET", "interlock:breaker:{catalog}", "state").text == "open"
            }
            for sidecar in fleet.sidecars {
                let status = try await sidecar.breaker(service: "catalog")
                #expect(status.state == .open)
                #expect(status.fleet.generation >= before)
            }
        }
    }

    @Test("A sidecar that joins adopts the fleet's state and does not reset it")
    func newcomerAdoptsState() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            let generation = try await fleet.sidecars[0].breaker(service: "catalog").fleet.generation
            let configuration = InterlockConfiguration(redis: fleet.server.configuration, services: [Self.service()])
            let newcomer = Coordinator(configuration: configuration, eventLoop: fleet.sidecars[0].eventLoop)
            await newcomer.start()
            try await eventually(within: .seconds(10), "the newcomer's breaker is open") {
                try await newcomer.breaker(service: "catalog").state == .open
            }
            #expect(try await fleet.sidecars[0].breaker(service: "catalog").fleet.generation == generation)
            await newcomer.stop()
        }
    }

    @Test("A sidecar that joins reads the breakers of all its services, however many there are")
    func newcomerWithManyServices() async throws {
        try await Fleet.run(services: [Self.service()]) { fleet in
            for _ in 0..<4 { _ = try await fleet.report(fleet.sidecars[0], .error) }
            try await fleet.expect(.open)
            // Breakers are read in the order of their names, a few at a time.
            let others = (0..<120).map { ServiceDefinition(name: "a\($0)") }
            let configuration = InterlockConfiguration(redis: fleet.server.configuration, services: others + [Self.service()])
            let newcomer = Coordinator(configuration: configuration, eventLoop: fleet.sidecars[0].eventLoop)
            await newcomer.start()
            try await eventually(within: .seconds(4), "the newcomer's breaker is open before it reads all of them again") {
                try await newcomer.breaker(service: "catalog").state == .open
            }
            await newcomer.stop()
        }
    }
}

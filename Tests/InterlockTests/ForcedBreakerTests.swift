import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Forced breakers on a real Redis server")
struct ForcedBreakerTests {
    private static let service = ServiceDefinition(name: "catalog")

    @Test("A forced state with an end returns to automatic once, and shows who forced it and why")
    func forcedStateReturnsToAutomaticOnce() async throws {
        try await Fleet.run(of: 2, services: [Self.service]) { fleet in
            let forced = try await fleet.sidecars[0].forceBreaker(
                service: "catalog", to: .open, forMilliseconds: 1500, reason: "moving the database", by: "ops")
            #expect(forced.fleet.reason == "moving the database")
            #expect(forced.fleet.changedBy == "\(fleet.sidecars[0].id) ops")
            #expect(forced.fleet.forcedUntilMilliseconds - forced.fleet.sinceMilliseconds == 1500)
            try await fleet.expect(.open)
            try await fleet.expect(.closed)
            try await eventually(within: .seconds(10), "the end of the forced state is in Redis") {
                try await fleet.breaker("cause") == "auto"
            }
            #expect(try await fleet.breaker("forced").isEmpty)
            let history = try await fleet.cli("XRANGE", "interlock:breaker:{catalog}:history", "-", "+").array ?? []
            #expect(history.count == 2)
        }
    }

    @Test("A forced state with an end is over on time even while Redis is unreachable")
    func endsWithoutRedis() async throws {
        try await Fleet.run(services: [Self.service]) { fleet in
            _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: .open, forMilliseconds: 400, by: "ops")
            await fleet.server.kill()
            try await fleet.expect(.closed)
        }
    }

    @Test("A later force replaces an earlier one and its end")
    func laterForceReplacesEarlierOneAndEnd() async throws {
        try await Fleet.run(services: [Self.service]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, forMilliseconds: 60_000, by: "ops")
            let status = try await sidecar.forceBreaker(service: "catalog", to: .disabled, reason: "for good", by: "ops")
            #expect(status.fleet.forcedUntilMilliseconds == 0)
            #expect(status.fleet.forced == .disabled)
            #expect(status.fleet.reason == "for good")
        }
    }

    /// Redis fails over to a replica that has the trial but not the forced state: Specs/Breaker-failover.cfg.
    @Test(
        "A trial from before a forced state does not end it, even if Redis has lost the forced state",
        arguments: [Outcome.ok, .error])
    func lateTrialAfterFailover(outcome: Outcome) async throws {
        var service = Self.service
        service.breaker.consecutiveFailures = 1
        service.breaker.openFor = .milliseconds(50) ... .milliseconds(50)
        service.breaker.halfOpenPermits = 1
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            try await fleet.report(sidecar, .error)
            try await fleet.expect(.halfOpen)
            let trial = try await fleet.permit(sidecar)
            let keys = ["interlock:breaker:{catalog}", "interlock:breaker:{catalog}:trials"]
            for key in keys { #expect(try await fleet.cli("COPY", key, "replica:" + key).integer == 1) }
            _ = try await sidecar.forceBreaker(service: "catalog", to: .closed, forMilliseconds: 60_000, by: "ops")
            for key in keys { #expect(try await fleet.cli("COPY", "replica:" + key, key, "REPLACE").integer == 1) }
            let report = OutcomeReport(outcome: outcome)
            #expect(try await sidecar.reportPermit(service: "catalog", permit: trial, report) == .closed)
            #expect(try await sidecar.breaker(service: "catalog").fleet.forced == .closed)
        }
    }

    @Test("The history contains the reason")
    func historyContainsReason() async throws {
        try await Fleet.run(services: [Self.service]) { fleet in
            _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: .closed, reason: "a \"drill\"", by: "ops")
            let entry = try await fleet.cli("XREVRANGE", "interlock:breaker:{catalog}:history", "+", "-", "COUNT", "1")
            let fields = entry.array?.first?.array?.last?.array?.compactMap(\.text) ?? []
            let index = try #require(fields.firstIndex(of: "reason"))
            #expect(fields[index + 1] == "a \"drill\"")
        }
    }

    @Test(
        "A reason is one line, whatever its source",
        arguments: ["a\nb", "a\r\nb", "a\u{1B}[2Jb", "a\u{85}b", "a\u{2028}b", "a\u{0}b"])
    func oneLine(reason: String) async throws {
        let error = await #expect(throws: InterlockError.self) {
            try await Fleet.run(services: [Self.service]) { fleet in
                _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: .open, reason: reason, by: "ops")
            }
        }
        #expect(error?.code == .invalid)
        #expect(error?.message.hasPrefix("reason: expected one line without control characters, but it contains ") ?? false)
        // Such characters in reasons written by other software are shown as spaces.
        #expect(BreakerSnapshot.oneLine(reason).unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 })
    }

    @Test("An end without a state and a reason that is too long are refused")
    func invalid() async throws {
        try await Fleet.run(services: [Self.service]) { fleet in
            let sidecar = fleet.sidecars[0]
            await #expect(throws: InterlockError.self) {
                try await sidecar.forceBreaker(service: "catalog", to: nil, forMilliseconds: 1, by: "ops")
            }
            let long = String(repeating: "x", count: BreakerSnapshot.maximumReasonLength + 1)
            await #expect(throws: InterlockError.self) {
                try await sidecar.forceBreaker(service: "catalog", to: .open, reason: long, by: "ops")
            }
        }
    }
}

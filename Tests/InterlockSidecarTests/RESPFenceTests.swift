import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("RESP API: releases and renewals that name a fence", .timeLimit(.minutes(2)))
struct RESPFenceTests {
    private static let modes = [[], ["SHARED"], ["PERMITS", "2"]]

    private static func acquire(_ options: [String] = [], at api: RESPTestAPI) async throws -> Int64 {
        let grant = try await api.send(["LOCK.ACQUIRE", "orders", "60000", "OWNER", "me"] + options).array
        return try #require(grant?[1].integer)
    }

    /// Returns the remaining time of the owner's lease, in milliseconds.
    private static func timeLeft(at api: RESPTestAPI) async throws -> Int64 {
        let lock = try await api.coordinator.inspectLock(try ResourceName("orders"))
        return try #require(lock?.leases.first?.remaining?.wholeMilliseconds)
    }

    @Test("A late release of an earlier lease does not affect the owner's next lease", arguments: modes)
    func lateRelease(options: [String]) async throws {
        try await RESPTestAPI.with { api in
            let first = try await Self.acquire(options, at: api)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me", "FENCE", "\(first)") == .integer(1))
            let second = try await Self.acquire(options, at: api)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me", "FENCE", "\(first)") == .integer(0))
            #expect(try await api.coordinator.inspectLock(try ResourceName("orders"))?.holders == 1)
            #expect(await api.coordinator.status.heldLockCount == 1)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me", "FENCE", "\(second)") == .integer(1))
            #expect(try await api.coordinator.inspectLock(try ResourceName("orders")) == nil)
        }
    }

    @Test("A late renewal of an earlier lease does not extend the owner's next lease", arguments: modes)
    func lateRenewal(options: [String]) async throws {
        try await RESPTestAPI.with { api in
            let first = try await Self.acquire(options, at: api)
            #expect(try await api.send("LOCK.RENEW", "orders", "me", "60000", "FENCE", "\(first)").integer ?? 0 > 0)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me") == .integer(1))
            let second = try await Self.acquire(options, at: api)
            #expect(try await api.send("LOCK.RENEW", "orders", "me", "600000", "FENCE", "\(first)") == .null)
            #expect(try await Self.timeLeft(at: api) <= 60_000)
            #expect(await api.coordinator.status.heldLockCount == 1)
            #expect(try await api.send("LOCK.RENEW", "orders", "me", "600000", "FENCE", "\(second)").integer ?? 0 > 60_000)
            #expect(try await Self.timeLeft(at: api) > 60_000)
        }
    }

    @Test("A late release of an earlier lease does not unlink the owner's next lease")
    func linked() async throws {
        try await RESPTestAPI.with { api in
            let first = try await Self.acquire(at: api)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me", "FENCE", "\(first)") == .integer(1))
            let start = ContinuousClock.now
            let grant = try await api.send("LOCK.ACQUIRE", "orders", "600", "OWNER", "me", "LINKED").array
            #expect(grant?.count == 3)
            #expect(try await api.send("LOCK.RELEASE", "orders", "me", "FENCE", "\(first)") == .integer(0))
            try await eventually("three times the ttl has passed") { ContinuousClock.now - start > .milliseconds(1800) }
            #expect(try await api.coordinator.inspectLock(try ResourceName("orders"))?.holders == 1)
        }
    }

    @Test("An invalid fence and unknown options are rejected")
    func invalidFenceAndUnknownOptionsAreRejected() async throws {
        try await RESPTestAPI.with { api in
            for words in [["FENCE", "0"], ["FENCE", "x"], ["FENCE"], ["FENSE", "1"]] {
                guard case .error(let release) = try await api.send(["LOCK.RELEASE", "orders", "me"] + words) else {
                    #expect(Bool(false), "\(words)")
                    continue
                }
                #expect(release.message.hasPrefix("INVALID"), "\(release.message)")
            }
        }
    }

    @Test("The error for an invalid ALSO count states the allowed range")
    func errorForInvalidCountStatesAllowedRange() async throws {
        try await RESPTestAPI.with { api in
            guard case .error(let error) = try await api.send("LOCK.ACQUIRE", "a", "1000", "ALSO", "0", "b") else {
                return #expect(Bool(false))
            }
            #expect(error.message == "INVALID ALSO: expected a whole number from 1 to 31, got \"0\"")
        }
    }

    @Test("The error for a ttl with a unit shows an example in milliseconds", arguments: ["LOCK.ACQUIRE a", "LOCK.RENEW a me"])
    func ttlWithUnit(command: String) async throws {
        try await RESPTestAPI.with { api in
            guard case .error(let error) = try await api.send(command.split(separator: " ").map { String($0) } + ["30s"]) else {
                return #expect(Bool(false))
            }
            #expect(error.message == "INVALID ttl-ms: expected milliseconds, such as 30000 for 30 s, got \"30s\"")
        }
    }
}

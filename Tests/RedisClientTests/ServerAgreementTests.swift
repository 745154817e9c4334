import NIOCore
import Testing

@testable import RedisClient

@Suite("Connections to one address agree on the server")
struct ServerAgreementTests {
    private static func at(_ milliseconds: UInt64) -> NIODeadline { .uptimeNanoseconds(milliseconds * 1_000_000) }

    /// Three connections to the server `a`: 1, 2 and 3, dialed at 1, 2 and 3 ms.
    private static var three: ServerAgreement {
        var agreement = ServerAgreement()
        for member in 1...3 {
            _ = agreement.connectionEstablished(member, runID: "a", dialedAt: at(UInt64(member)), areOthersUp: member == 3)
        }
        return agreement
    }

    @Test("A connection that reconnects to another server makes the connections dialed earlier reconnect")
    func newServer() {
        var agreement = Self.three
        #expect(agreement.connectionLost(2, isDemoted: false, runID: nil).isEmpty)
        #expect(agreement.connectionEstablished(2, runID: "b", dialedAt: Self.at(10), areOthersUp: true) == [1, 3])
    }

    @Test("A connection dialed before the address changed reconnects and does not move other connections back")
    func lateLogin() {
        var agreement = Self.three
        for member in [1, 2] { _ = agreement.connectionLost(member, isDemoted: false, runID: nil) }
        #expect(agreement.connectionEstablished(1, runID: "b", dialedAt: Self.at(20), areOthersUp: false) == [3])
        _ = agreement.connectionLost(3, isDemoted: false, runID: nil)
        #expect(agreement.connectionEstablished(2, runID: "a", dialedAt: Self.at(10), areOthersUp: false) == [2])
    }

    @Test("When a replica refuses a command, all connections to that server reconnect, and no others")
    func demoted() {
        var agreement = Self.three
        #expect(agreement.connectionLost(1, isDemoted: true, runID: "a") == [2, 3])
        var others = Self.three
        _ = others.connectionLost(3, isDemoted: false, runID: nil)
        _ = others.connectionEstablished(3, runID: nil, dialedAt: Self.at(9), areOthersUp: true)
        // A member whose run ID is unknown must reconnect too.
        #expect(others.connectionLost(1, isDemoted: true, runID: nil) == [2, 3])
    }

    @Test("When an attempt reaches a replica, only the connections to that server reconnect")
    func replicaFound() {
        var agreement = Self.three
        _ = agreement.connectionLost(1, isDemoted: false, runID: nil)
        #expect(agreement.connectionLost(1, isDemoted: true, runID: "b").isEmpty)
        #expect(agreement.connectionLost(1, isDemoted: true, runID: nil).isEmpty)
        #expect(agreement.connectionLost(1, isDemoted: true, runID: "a") == [2, 3])
    }

    @Test("Connections to an address that alternates between two servers reconnect only a limited number of times")
    func severalServers() {
        var agreement = Self.three
        var moves = 0
        for round in 0..<100 {
            _ = agreement.connectionLost(1, isDemoted: false, runID: nil)
            let leaving = agreement.connectionEstablished(
                1, runID: round.isMultiple(of: 2) ? "b" : "a", dialedAt: Self.at(UInt64(100 + round)), areOthersUp: false)
            for member in leaving {
                moves += 1
                _ = agreement.connectionLost(member, isDemoted: false, runID: nil)
                _ = agreement.connectionEstablished(
                    member, runID: round.isMultiple(of: 2) ? "a" : "b", dialedAt: Self.at(UInt64(100 + round)), areOthersUp: false
                )
            }
        }
        #expect(agreement.ignoresRunIDs)
        #expect(moves <= 3 * ServerAgreement.maximumRounds)
        // All members are at one server, so they are compared again.
        for member in 1...3 {
            _ = agreement.connectionLost(member, isDemoted: false, runID: nil)
        }
        for member in 1...3 {
            _ = agreement.connectionEstablished(member, runID: "c", dialedAt: Self.at(1000), areOthersUp: member == 3)
        }
        #expect(!agreement.ignoresRunIDs)
    }

    @Test("A connection without a run ID makes no other connection reconnect")
    func withoutRunIDs() {
        var agreement = ServerAgreement()
        _ = agreement.connectionEstablished(1, runID: nil, dialedAt: Self.at(1), areOthersUp: false)
        #expect(agreement.connectionEstablished(2, runID: "a", dialedAt: Self.at(2), areOthersUp: true).isEmpty)
        #expect(agreement.connectionEstablished(3, runID: nil, dialedAt: Self.at(3), areOthersUp: true).isEmpty)
    }
}

@Suite("Identification of a peer by its replies to the login")
struct PeerCheckTests {
    private static let name = "redis://h:6379/0"

    private static func check(
        hello: [String: String] = [:], info: [String: String] = [:], script: RedisError? = nil, refusesReplicas: Bool = true
    ) -> String? {
        let check = PeerCheck(hello: hello, info: info, scriptFailure: script, refusesReplicas: refusesReplicas)
        return (check.identityFailure(at: name) ?? check.failure(at: name))?.message
    }

    @Test(
        "Redis, Valkey, and a server that reports nothing but runs scripts can serve",
        arguments: [
            [:], ["version": "6.2.0", "role": "master", "mode": "standalone"],
            ["server": "redis", "version": "7.0.15", "role": "master"],
            ["server": "valkey", "version": "8.1.0", "role": "master", "mode": "standalone"],
            ["role": "active-replica", "version": "6.3.4"],
        ])
    func serverThatRunsScriptsCanServe(hello: [String: String]) {
        #expect(Self.check(hello: hello) == nil)
    }

    @Test("The error identifies every other peer")
    func errorIdentifiesEveryOtherPeer() {
        #expect(Self.check(hello: ["server": "interlock", "version": "0.2.0"])?.contains("Interlock sidecar") ?? false)
        #expect(Self.check(hello: ["mode": "sentinel"])?.contains("is a Sentinel") ?? false)
        #expect(Self.check(info: ["redis_mode": "sentinel"])?.contains("is a Sentinel") ?? false)
        #expect(Self.check(hello: ["version": "6.0.20"])?.contains("is Redis 6.0.20") ?? false)
        #expect(Self.check(info: ["redis_version": "5.0.7"])?.contains("is Redis 5.0.7") ?? false)
        #expect(Self.check(hello: ["role": "replica"])?.contains("is a replica") ?? false)
        #expect(Self.check(hello: ["role": "replica"], refusesReplicas: false) == nil)
        #expect(Self.check(script: RedisError(reply: "NOPERM no"))?.contains("does not let this user run scripts") ?? false)
        #expect(Self.check(script: RedisError(reply: "ERR unknown command 'EVALSHA'"))?.contains("cannot run scripts") ?? false)
        #expect(Self.check(script: RedisError(.unexpectedReply, "a status"))?.contains("cannot run scripts") ?? false)
        #expect(Self.check(script: RedisError(reply: "LOADING soon"))?.contains("refused the login: LOADING") ?? false)
    }

    @Test(
        "A demoted server is distinguished from one that is out of memory or busy",
        arguments: ["READONLY x", "MASTERDOWN x", "LOADING x"])
    func demotion(reply: String) {
        #expect(RedisError(reply: reply).isDemotion)
        for other in ["OOM x", "MISCONF x", "NOREPLICAS x", "BUSY x", "ERR x"] { #expect(!RedisError(reply: other).isDemotion) }
    }

    @Test("The error for a failed script does not name the script")
    func errorForFailedScriptDoesNotNameScript() {
        let reply = "WRONGTYPE Operation against a key script: 98613eb3c4ab0ae2bb0ff6aee3ea1e8e64b4e8b8, on @user_script:2."
        #expect(RedisError(reply: reply).message == "WRONGTYPE Operation against a key")
        #expect(RedisError(reply: "ERR no script: of that name").message == "ERR no script: of that name")
    }
}

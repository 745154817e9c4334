import Glibc
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import RedisClient
import Testing

@testable import Interlock

@Suite("The list of the fleet", .timeLimit(.minutes(1)))
struct FleetListTests {
    private static let services = [ServiceDefinition(name: "catalog"), ServiceDefinition(name: "mail")]

    @Test("Each live sidecar is listed with what it publishes about itself")
    func members() async throws {
        try await Fleet.run(of: 2, services: Self.services) { fleet in
            try await fleet.waitUntilFleetIsKnown()
            let members = try await fleet.sidecars[0].fleet()
            #expect(members.map(\.id) == fleet.sidecars.map(\.id).sorted())
            let digest = ConfigurationDigest(Self.services).combined
            for member in members {
                #expect(member.host == "test")
                #expect(member.version == "unknown")
                #expect(member.processID == Int64(getpid()))
                #expect(try #require(member.startedMilliseconds) > 1_600_000_000_000)
                #expect(member.configurationDigest == digest)
            }
        }
    }

    @Test("A reload is visible, whatever the order of the services")
    func reloadIsVisible() async throws {
        try await Fleet.run(services: Self.services) { fleet in
            func publishedDigest() async throws -> String? { try await fleet.sidecars[0].fleet().first?.configurationDigest }
            let before = try await publishedDigest()
            try await fleet.sidecars[0].reload(services: Self.services.reversed())
            #expect(try await publishedDigest() == before)
            try await fleet.sidecars[0].reload(services: [Self.services[0]])
            #expect(try await publishedDigest() == ConfigurationDigest([Self.services[0]]).combined)
        }
    }

    @Test("An older sidecar is listed with what it publishes, and one that published nothing with its ID")
    func olderSidecarIsListed() async throws {
        try await Fleet.run { fleet in
            try await fleet.cli("ZADD", "interlock:fleet", "9999999999999", "0000000000aa", "9999999999999", "0000000000bb")
            try await fleet.cli(
                "HSET", "interlock:fleet:0000000000aa", "host", "old", "pid", "7", "version", "0.1.0", "started", "5")
            let members = try await fleet.sidecars[0].fleet()
            #expect(members.count == 3)
            #expect(
                members[0]
                    == FleetMember(
                        id: "0000000000aa", host: "old", processID: 7, version: "0.1.0", startedMilliseconds: 5000))
            #expect(members[1] == FleetMember(id: "0000000000bb"))
        }
    }

    @Test("Concurrent requests for the list get the same list")
    func concurrentRequestsForListGetSameList() async throws {
        try await Fleet.run { fleet in
            let callers = 50
            try await fleet.cli("CONFIG", "RESETSTAT")
            await fleet.server.pause()
            let begun = NIOLockedValueBox(0)
            try await withThrowingTaskGroup(of: [FleetMember].self) { group in
                for _ in 0..<callers {
                    group.addTask {
                        begun.withLockedValue { $0 += 1 }
                        return try await fleet.sidecars[0].fleet()
                    }
                }
                try await eventually(within: .seconds(20), "all calls have begun") { begun.withLockedValue { $0 } == callers }
                // The status comes from the same event loop, after all requests for the list.
                _ = await fleet.sidecars[0].status
                await fleet.server.resume()
                for try await members in group { #expect(members.map(\.id) == [fleet.sidecars[0].id]) }
            }
            let statistics = try await fleet.redis.send(Info(section: "commandstats"))["cmdstat_hgetall"] ?? ""
            let lists = statistics.split(separator: ",").first.flatMap { $0.split(separator: "=").last.flatMap { Int($0) } }
            // One reading of the list serves all requests, except that late ones may cause a few more.
            #expect(try #require(lists) < callers / 5)
        }
    }

    @Test("A sidecar that leaves during a listing is not listed again")
    func sidecarThatLeavesDuringListingIsNotListedAgain() async throws {
        try await Fleet.run(of: 2) { fleet in
            let leaver = fleet.sidecars[0]
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<50 { group.addTask { _ = try? await leaver.fleet() } }
                group.addTask { await leaver.stop() }
                for _ in 0..<50 { group.addTask { _ = try? await leaver.fleet() } }
            }
            let members = try await fleet.sidecars[1].fleet()
            #expect(members.map(\.id) == [fleet.sidecars[1].id])
        }
    }

    @Test("An unreachable Redis is reported")
    func redisUnreachable() async throws {
        try await Fleet.run { fleet in
            await fleet.server.stop()
            let error = await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].fleet() }
            #expect(error?.code == .unavailable)
        }
    }

    @Test("Redis shows to which sidecar each connection belongs")
    func connectionNames() async throws {
        try await Fleet.run { fleet in
            let list = try await fleet.cli("CLIENT", "LIST").text ?? ""
            #expect(list.split(separator: "\n").count { $0.contains(" name=interlock/\(fleet.sidecars[0].id) ") } == 3)
        }
    }
}

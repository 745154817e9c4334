import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import RedisClient
import Testing

@testable import Interlock

/// The notifications that coordinators receive from a cluster: turns, changed keys, and migrating hash slots.
@Suite("Notifications from a Redis Cluster", .serialized, .timeLimit(.minutes(3)))
struct ClusterEventTests {
    @Test("A key that other software deletes is noticed immediately on any server, and each event arrives once")
    func externalDeletions() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await ClusterTests.withCoordinators(of: 2, fleet) { coordinators in
                let lockNames = NIOLockedValueBox<[String]>([])
                let events = coordinators[1].events.locks.subscribe()
                let reading = Task {
                    for await event in events { lockNames.withLockedValue { $0.append(event.payload.lock) } }
                }
                var names: [String] = []
                for member in await fleet.members {
                    let name = try await ClusterTests.name(on: member, of: fleet)
                    names.append(name.text)
                    let lease = try #require(try await ClusterTests.acquire(name, coordinators[0]))
                    let followed = try await coordinators[0].followLease(lease, isLinked: true)
                    try await member.server.waitUntilTracking(1)
                    _ = try await member.server.ask(["DEL", "interlock:lock:{\(name)}"])
                    let start = ContinuousClock.now
                    #expect(await followed.losses.first { _ in true } == .deleted)
                    // The next periodic check would come much later.
                    #expect(ContinuousClock.now - start < .seconds(4))
                    #expect(try await ClusterTests.acquire(name, coordinators[0]) != nil)
                    #expect(try await coordinators[0].breakLock(name, by: "test"))
                }
                try await eventually(within: .seconds(20), "all events have arrived") {
                    lockNames.withLockedValue { $0.count } >= names.count
                }
                #expect(lockNames.withLockedValue { $0 } == names)
                reading.cancel()
            }
        }
    }

    @Test("A turn is published only at the lock's own server once its sidecar subscribes there")
    func shardChannels() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await ClusterTests.withCoordinators(of: 2, fleet) { coordinators in
                for member in await fleet.members {
                    let name = try await ClusterTests.name(on: member, of: fleet)
                    let heldLease = try #require(try await ClusterTests.acquire(name, coordinators[0]))
                    let waiter = Task { try await ClusterTests.acquire(name, wait: 30_000, coordinators[1]) }
                    try await eventually(within: .seconds(20), "the waiting sidecar has subscribed") {
                        try await member.server.ask(["PUBSUB", "SHARDCHANNELS"]).array?.count == 1
                    }
                    let before = try await Self.publishCounts(at: member)
                    _ = try await coordinators[0].releaseLock(name, token: heldLease.token)
                    #expect(try await waiter.value != nil)
                    let after = try await Self.publishCounts(at: member)
                    #expect(after.shard == before.shard + 1)
                    #expect(after.cluster == before.cluster)
                }
            }
        }
    }

    /// Returns how often a server has published to its shard and to the whole cluster.
    private static func publishCounts(at member: ClusterFleet.Member) async throws -> (shard: Int, cluster: Int) {
        (try await statistic("spublish", "calls", at: member), try await statistic("publish", "calls", at: member))
    }

    private static func statistic(_ command: String, _ field: String, at member: ClusterFleet.Member) async throws -> Int {
        let statistics = try await member.server.ask(["INFO", "commandstats"]).text ?? ""
        let line = statistics.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):") }
        let value = line?.split(separator: ":").last?.split(separator: ",").first { $0.hasPrefix("\(field)=") }
        return value.flatMap { Int($0.dropFirst(field.count + 1)) } ?? 0
    }

    @Test("The fleet's list is complete while its hash slot moves")
    func fleetMoves() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await ClusterTests.withCoordinators(of: 2, fleet, timeout: .seconds(20)) { coordinators in
                let slot = HashSlot(ofKey: "interlock:{fleet}")
                let source = try await fleet.owner(of: slot)
                let others = await fleet.members.filter { $0.id != source.id }
                try await fleet.beginMove(of: slot, to: others[0])
                // One sidecar's hash has moved, but the list has not.
                let hash = "interlock:{fleet}:\(coordinators[0].id)"
                let port = others[0].server.port ?? 0
                #expect(try await source.server.ask(["MIGRATE", "127.0.0.1", "\(port)", hash, "0", "5000"]).text == "OK")
                let list = Task { try await coordinators[1].fleet().map(\.id) }
                try await fleet.finishMove(of: slot, to: others[0])
                #expect(try await list.value == coordinators.map(\.id).sorted())
            }
        }
    }

    @Test("A caller that waits for a lock whose hash slot arrives late proceeds as soon as the slot has arrived")
    func lateSlot() async throws {
        try await ClusterFleet.withFleet { fleet in
            try await ClusterTests.withCoordinators(of: 2, fleet, timeout: .milliseconds(300)) { coordinators in
                let (source, target) = (await fleet.members[0], await fleet.members[1])
                let name = try await ClusterTests.name(on: source, of: fleet)
                let slot = HashSlot(ofKey: name.text)
                try await fleet.beginMove(of: slot, to: target)
                let late = Task { try await ClusterTests.acquire(name, wait: 60_000, coordinators[0]) }
                // The acquire is rejected for longer than a call may take.
                try await eventually(within: .seconds(20), "the caller's attempts are refused") {
                    try await Self.statistic("eval", "rejected_calls", at: target) > 100
                }
                try await fleet.finishMove(of: slot, to: target)
                let start = ContinuousClock.now
                #expect(try await late.value != nil)
                // The next periodic check would come much later.
                #expect(ContinuousClock.now - start < .seconds(3))
            }
        }
    }

    @Test("A cluster without a reachable server is reported as unreachable")
    func clusterWithoutReachableServerIsReportedAsUnreachable() async throws {
        let port = try await LocalPort.unused()
        let configuration = try RedisConfiguration(url: "redis+cluster://127.0.0.1:\(port)")
        let client = RedisClient(configuration: configuration)
        let error = await #expect(throws: RedisError.self) { try await client.connect() }
        #expect(error?.message.hasPrefix("127.0.0.1:\(port): ") ?? false)
        await client.close()
    }
}

import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// The effects of a cluster on locks and limits. Each test is the shortest story that shows one effect.
@Suite("Locks and limits on a cluster", .timeLimit(.minutes(2)))
struct ClusterScenarioTests {
    private static func stage(sidecars: Int = 2, services: [ServiceDefinition] = []) throws -> (Stage, ClusterGroup) {
        let stage = Stage(sidecars: sidecars, topology: .cluster(primaries: 3), services: services)
        return (stage, try #require(stage.cluster))
    }

    /// Returns the hash slot of a key, its owner, and another primary.
    private static func location(of key: String, on cluster: ClusterGroup) throws -> (slot: Int, source: Int, target: Int) {
        let slot = ClusterSlot.of(key)
        let source = try #require(cluster.owner(of: slot))
        return (slot, source, try #require(cluster.primaries.first { $0 != source }))
    }

    @Test("A script whose key has moved before its hash slot is sent with ASKING, and its caller gets only its answer")
    func asking() throws {
        let (stage, cluster) = try Self.stage(services: [LimitFaultTests.service(limit: 2)])
        for key in ["interlock:lock:{orders}", "interlock:rate:{api}:main"] {
            let lease = stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 60_000, owner: "me")))?.lease
            let (slot, source, target) = try Self.location(of: key, on: cluster)
            if key.contains("rate") { #expect(stage.result(of: stage.take("api"))?.isAllowed == true) }
            cluster.members[target].beginMove(of: slot, from: source)
            cluster.members[source].beginMove(of: slot, to: target)
            for moved in cluster.hosts[source].server.keys(inSlots: [slot]) {
                cluster.hosts[source].server.move(moved, to: cluster.hosts[target].server)
            }
            let began = stage.milliseconds
            if key.contains("rate") {
                for isAllowed in [true, false] {
                    let take = stage.take("api")
                    #expect(stage.result(of: take)?.isAllowed == isAllowed)
                    #expect(take.resultCount == 1)
                }
                #expect(stage.milliseconds - began < 400)
            } else {
                let renewal = stage.renew(try #require(lease), ttlMilliseconds: 90_000)
                guard case .renewed? = stage.result(of: renewal) else { return #expect(Bool(false), "not renewed") }
                #expect((renewal.endedAtMilliseconds ?? 60_000) - began < 200)
                #expect(renewal.resultCount == 1)
            }
            cluster.assign([slot], from: source, to: target)
            stage.run(milliseconds: 1000)
        }
    }

    @Test("Hash slots that move while in use are served without interruption")
    func moving() throws {
        let (stage, cluster) = try Self.stage()
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 60_000)))?.lease)
        let (slot, _, target) = try Self.location(of: "interlock:lock:{orders}", on: cluster)
        var isDone = false
        let move = cluster.move([slot], toShard: cluster.shards[target], pause: .milliseconds(20)) { isDone = true }
        move.start()
        while !isDone, stage.milliseconds < 20_000 {
            #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.isHeld == true)
            guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000)) else {
                return #expect(Bool(false), "not renewed")
            }
            stage.run(milliseconds: 5)
        }
        #expect(isDone)
        #expect(cluster.owner(of: slot) == target)
    }

    @Test("A waiter whose sidecar has subscribed at a server other than the lock's is not considered dead")
    func listeningElsewhere() throws {
        let (stage, cluster) = try Self.stage(sidecars: 3)
        // The first waiter is notified last and asks last, so only its position in the queue preserves its turn.
        for host in cluster.hosts { stage.path(of: 0, to: host).delay = 30_000_000...30_000_000 }
        var servers: Set<Int> = []
        for number in 0..<12 {
            let name = "orders-\(number)"
            servers.insert(try Self.location(of: "interlock:lock:{\(name)}", on: cluster).source)
            let holder = try #require(stage.result(of: stage.acquire(try LockFaultTests.request(name), through: 1))?.lease)
            let first = stage.acquire(try LockFaultTests.request(name, wait: 20_000))
            stage.run(milliseconds: 200)
            let second = stage.acquire(try LockFaultTests.request(name, wait: 20_000), through: 2)
            stage.run(milliseconds: 200)
            let released = stage.milliseconds
            _ = stage.release(holder, through: 1)
            let lease = try #require(stage.result(of: first)?.lease, "\(name)")
            #expect((first.endedAtMilliseconds ?? 60_000) - released < 200, "\(name)")
            #expect(second.endedAtMilliseconds == nil, "\(name): the second waiter was served first")
            _ = stage.release(lease)
            #expect(stage.result(of: second)?.lease != nil)
        }
        #expect(servers.count == 3)
    }

    @Test("A dead waiter delays the queue by one claim window, and only once")
    func deadWaiter() throws {
        let (stage, _) = try Self.stage(sidecars: 3)
        let holder = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        _ = stage.acquire(try LockFaultTests.request("orders", wait: 60_000), through: 2)
        stage.run(milliseconds: 100)
        let waiter = stage.acquire(try LockFaultTests.request("orders", wait: 60_000))
        stage.run(milliseconds: 100)
        stage.sidecars[2].kill()
        stage.run(milliseconds: 100)
        var released = stage.milliseconds
        _ = stage.release(holder, through: 1)
        let lease = try #require(stage.result(of: waiter)?.lease)
        #expect((waiter.endedAtMilliseconds ?? 60_000) - released <= 500)
        let next = stage.acquire(try LockFaultTests.request("orders", wait: 60_000), through: 1)
        stage.run(milliseconds: 100)
        released = stage.milliseconds
        _ = stage.release(lease)
        #expect(stage.result(of: next)?.lease != nil)
        #expect((next.endedAtMilliseconds ?? 60_000) - released < 200)
    }

    @Test("A lock that was granted but not replicated is lost in a failover, and the later holder's fence is higher")
    func documentedLoss() throws {
        let (stage, cluster) = try Self.stage()
        let (slot, source, _) = try Self.location(of: "interlock:lock:{orders}", on: cluster)
        cluster.backbone.set(source, source + 3, isCut: true)
        let stale = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 60_000)))?.lease)
        cluster.hosts[source].crash()
        #expect(
            stage.run(upToMilliseconds: 6000) {
                cluster.owner(of: slot) == source + 3 && cluster.isStable(without: source)
            })
        stage.run(milliseconds: 1000)
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders"), through: 1))?.lease)
        #expect(lease.fence > stale.fence)
        // The former primary returns as a replica.
        cluster.backbone.restoreAll()
        cluster.hosts[source].start(with: .all)
        #expect(
            stage.run(upToMilliseconds: 5000) {
                cluster.members[source].myself.primary == source + 3 && cluster.isStable
            })
        #expect(stage.result(of: stage.acquire(try LockFaultTests.request("orders")))?.isHeld == true)
    }

    @Test("A lease survives a server that joins, gets its portion of the hash slots, returns it and leaves")
    func leaseSurvivesJoiningAndLeavingServer() throws {
        let (stage, cluster) = try Self.stage()
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 90_000)))?.lease)
        var isDone = false
        let join = cluster.addSpare(pause: .milliseconds(1)) { isDone = true }
        try #require(join).start()
        #expect(stage.run(upToMilliseconds: 10_000) { isDone && cluster.isStable })
        #expect(cluster.primaries.count == 4)
        isDone = false
        let leave = cluster.removeSpare(pause: .milliseconds(1)) { isDone = true }
        try #require(leave).start()
        #expect(stage.run(upToMilliseconds: 10_000) { isDone && cluster.isStable })
        #expect(cluster.primaries.count == 3)
        stage.run(milliseconds: 1000)
        guard case .renewed? = stage.result(of: stage.renew(lease, ttlMilliseconds: 60_000, through: 1)) else {
            return #expect(Bool(false), "not renewed")
        }
    }
}

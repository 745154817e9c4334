import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Planned failovers behind one address. Each test is the shortest story that shows one effect.
@Suite("A new server behind one address", .timeLimit(.minutes(1)))
struct MovedServerScenarioTests {
    private static let connections = 3

    @Test("A linked lease survives repeated changes of the server, and every connection moves within a second")
    func linkedLease() throws {
        let stage = Stage(sidecars: 2)
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 1500)))?.lease)
        var losses: [LeaseLoss?] = []
        stage.sidecars[0].call { coordinator in _ = coordinator.followLease(lease, isLinked: true) { losses.append($0.loss) } }
        stage.run(milliseconds: 100)
        for _ in 0..<20 {
            stage.redis.handOver()
            // A connection in use notices the switch at its next renewal, an idle sidecar at its next heartbeat.
            let all = 2 * Self.connections
            #expect(stage.run(upToMilliseconds: 6000) { !stage.redis.server.hasNoConnections })
            #expect(stage.run(upToMilliseconds: 6000) { stage.redis.formerServers.allSatisfy(\.hasNoConnections) })
            #expect(stage.run(upToMilliseconds: 1000) { stage.redis.server.connectionCount == all })
            stage.run(milliseconds: 3000)
            #expect(losses.isEmpty, "\(losses)")
            guard losses.isEmpty else { return }
        }
        #expect(stage.cli("EXISTS", "interlock:lock:{orders}") == ":1")
        // Tracking works at the last server too.
        stage.cli("DEL", "interlock:lock:{orders}")
        #expect(stage.run(upToMilliseconds: 1000) { losses == [.deleted] })
    }

    @Test("A READONLY error on one connection moves the others too, even if no server reports its run ID")
    func readonlyErrorMovesEveryConnection() throws {
        let stage = Stage()
        stage.redis.server.reportsRunID = false
        let lease = try #require(stage.result(of: stage.acquire(try LockFaultTests.request("orders", ttl: 1500)))?.lease)
        stage.sidecars[0].call { coordinator in _ = coordinator.followLease(lease, isLinked: true) { _ in } }
        stage.run(milliseconds: 100)
        for _ in 0..<20 {
            stage.redis.handOver()
            #expect(stage.run(upToMilliseconds: 6000) { !stage.redis.server.hasNoConnections })
            #expect(stage.run(upToMilliseconds: 1000) { stage.redis.server.connectionCount == Self.connections })
        }
    }

    @Test("A sidecar whose subscriptions reconnect to another server moves its other connections there")
    func runID() throws {
        let stage = Stage()
        let former = stage.redis.server.connectionCount
        #expect(former == Self.connections)
        stage.redis.handOver()
        // A single connection breaks, and no command on it is refused.
        stage.redis.formerServers[0].closeSubscriber()
        #expect(stage.run(upToMilliseconds: 1000) { stage.redis.server.connectionCount == Self.connections })
        #expect(stage.redis.formerServers[0].hasNoConnections)
    }
}

extension SimulatedServer {
    fileprivate var hasNoConnections: Bool { connectionCount == 0 }
}

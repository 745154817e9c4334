import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Locks on three real Redis servers that restart empty", .timeLimit(.minutes(2)))
struct QuorumRestartTests {
    @Test("Ten rolling restarts lose no lease that is renewed between them, grant none twice and repeat no fence")
    func rollingRestarts() async throws {
        try await Quorum.run(of: 2) { quorum in
            let name = try ResourceName("orders")
            var lease = try #require(try await quorum.sidecars[0].acquireLock(try LockRequest("orders", ttl: 60_000)))
            for round in 0..<10 {
                let server = round % 3
                try await quorum.servers[server].restart(keepingData: false)
                for sidecar in quorum.sidecars { try await quorum.waitUntilEveryServerIsReached(by: sidecar) }
                for sidecar in quorum.sidecars {
                    #expect(
                        try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) != nil,
                        "restart \(round)")
                }
                try await eventually("restart \(round): the lease is restored on server \(server)") {
                    try await quorum.cli(server, "GET", "interlock:lock:{orders}").text == lease.token
                }
                let number = try await quorum.cli(server, "GET", "interlock:fence:{orders}").text.flatMap { Int64($0) }
                #expect(number ?? 0 >= lease.fence)
                #expect(try await quorum.sidecars[1].acquireLock(try LockRequest("orders")) == nil)
                // The lock changes hands in every fourth round.
                guard round % 4 == 3 else { continue }
                #expect(try await quorum.sidecars[0].releaseLock(name, token: lease.token))
                let nextLease = try await quorum.eventuallyAcquire(
                    try LockRequest("orders", ttl: 60_000), through: quorum.sidecars[1])
                #expect(nextLease.fence > lease.fence)
                lease = nextLease
            }
            #expect(try await quorum.sidecars[0].releaseLock(name, token: lease.token))
        }
    }
}

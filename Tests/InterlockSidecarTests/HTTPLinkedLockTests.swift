import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("HTTP API: leases linked to a stream")
struct HTTPLinkedLockTests {
    private static let body = #"{"ttl_ms": 60000, "linked": true}"#

    @Test("The stream begins with the lease, which lasts while the stream is open")
    func streamBeginsWithLease() async throws {
        try await HTTPTestAPI.with { api in
            let coordinator = api.coordinator
            let name = try ResourceName("a")
            let clock = ContinuousClock()
            try await api.client.follow("POST", "/v1/locks/a", #"{"ttl_ms": 1000, "linked": true}"#) { received in
                guard let lease = HTTPTestClient.event("lease", in: received) else { return false }
                #expect(received.hasPrefix("HTTP/1.1 201"))
                #expect(received.lowercased().contains("content-type: text/event-stream"))
                #expect(lease.text("name") == "a")
                #expect(lease.text("token") != nil)
                let start = clock.now
                try await eventually("three times the ttl has passed") { clock.now - start > .seconds(3) }
                let information = try await coordinator.inspectLock(name)
                #expect(information?.holders == 1)
                #expect(information?.fence == lease.integer("fence"))
                return true
            }
        }
    }

    @Test("The leases are released when their client closes the stream")
    func closedStreamReleasesLeases() async throws {
        try await HTTPTestAPI.with { api in
            let coordinator = api.coordinator
            let names = [try ResourceName("a"), try ResourceName("b")]
            let body = #"{"ttl_ms": 60000, "linked": true, "also": ["b"]}"#
            try await api.client.follow("POST", "/v1/locks/a", body) { received in
                guard let lease = HTTPTestClient.event("lease", in: received) else { return false }
                #expect(lease.leases.map { $0.text("name") } == ["a", "b"])
                for name in names {
                    let holders = try await coordinator.inspectLock(name)?.holders
                    #expect(holders == 1)
                }
                return true
            }
            for name in names {
                try await eventually("the lock is free") { try await coordinator.inspectLock(name)?.label == nil }
            }
        }
    }

    @Test("A lease broken by an operator is reported as lost, and the stream ends")
    func brokenLeaseIsReportedAsLost() async throws {
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            let client = api.client
            let response = try await client.exchange(Self.request(Self.body, on: client)) { received in
                guard HTTPTestClient.event("lease", in: received) != nil, HTTPTestClient.event("lost", in: received) == nil
                else { return }
                try await api.redis.waitUntilTracking(1)
                _ = try await client.send("POST", "/v1/locks/a/break")
            }
            let lease = try #require(HTTPTestClient.event("lease", in: response))
            let lost = try #require(HTTPTestClient.event("lost", in: response))
            #expect(lost.text("reason") == "broken")
            #expect(lost.text("name") == "a")
            #expect(lost.text("token") == lease.text("token"))
            #expect(response.hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("The stream lasts until the last of several leases is lost or released")
    func several() async throws {
        try await HTTPTestAPI.with { api in
            try await api.waitUntilSubscribed()
            let client = api.client
            let body = #"{"ttl_ms": 60000, "linked": true, "also": ["b"]}"#
            let response = try await client.exchange(Self.request(body, on: client)) { received in
                guard let lease = HTTPTestClient.event("lease", in: received) else { return }
                guard HTTPTestClient.event("lost", in: received) != nil else {
                    _ = try await client.send("POST", "/v1/locks/a/break")
                    return
                }
                let token = try #require(lease.leases.last?.text("token"))
                _ = try await client.send("DELETE", "/v1/locks/b", headers: ["Lease-Token": token])
            }
            let lost = try #require(HTTPTestClient.event("lost", in: response))
            #expect(lost.text("name") == "a")
            #expect(response.split(separator: "event: lost").count == 2, "a release is not a loss")
            #expect(response.hasSuffix("0\r\n\r\n"))
        }
    }

    @Test("A shutdown notifies the client and leaves the lease to expire")
    func shutdownNotifiesClientAndLeavesLeaseToExpire() async throws {
        try await HTTPTestAPI.with { api in
            let client = api.client
            let shutDown = api.shutDown
            let response = try await client.exchange(Self.request(Self.body, on: client)) { received in
                if HTTPTestClient.event("lease", in: received) != nil { await shutDown() }
            }
            #expect(HTTPTestClient.event("lost", in: response)?.text("reason") == "shutdown")
            #expect(response.split(separator: "event: lost").count == 2, "the loss is reported once")
            #expect(response.hasSuffix("0\r\n\r\n"))
            let redis = RedisClient(configuration: api.redis.configuration)
            try await redis.connect()
            let key = try await redis.send(AnyCommand(["EXISTS", "interlock:lock:{a}"]))
            await redis.close()
            #expect(key == .integer(1))
        }
    }

    @Test("A request for a held lock is refused as usual")
    func requestForHeldLockIsRefusedAsUsual() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/a", #"{"ttl_ms": 30000}"#)
            let refusal = try await api.client.send("POST", "/v1/locks/a", Self.body)
            #expect(refusal.status == 409)
            #expect(refusal.headers["content-type"] == "application/problem+json")
        }
    }

    /// Returns a request for a stream that is followed to its end.
    private static func request(_ body: String, on client: HTTPTestClient) -> String {
        HTTPTestClient.request("POST", "/v1/locks/a", body, headers: [:], port: client.port, closing: true)
    }
}

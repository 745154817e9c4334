import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import SidecarListeners

@Suite("HTTP API: locks")
struct HTTPLockTests {
    @Test("A lock is acquired, held, renewed, released and then lost")
    func lifeOfALease() async throws {
        try await HTTPTestAPI.with { api in
            let grant = try await api.client.send("POST", "/v1/locks/orders", #"{"ttl_ms": 10000, "label": "worker-1"}"#)
            #expect(grant.status == 201)
            #expect(grant.text("name") == "orders")
            let token = try #require(grant.text("token"))
            let fence = try #require(grant.integer("fence"))
            #expect(try #require(grant.integer("valid_ms")) <= 10_000)

            let refusal = try await api.client.send("POST", "/v1/locks/orders", #"{"ttl_ms": 10000}"#)
            #expect(refusal.status == 409)
            #expect(refusal.text("code") == "held")
            #expect(refusal.headers["content-type"] == "application/problem+json")

            let information = try await api.client.send("GET", "/v1/locks/orders")
            #expect(information.status == 200)
            #expect(information.text("label") == "worker-1")
            #expect(information.integer("fence") == fence)
            #expect(!information.body.contains(token))

            let renewed = try await api.client.send(
                "POST", "/v1/locks/orders/renew", #"{"ttl_ms": 20000, "token": "\#(token)"}"#)
            #expect(renewed.status == 200)
            #expect(try #require(renewed.integer("valid_ms")) > 10_000)

            let release = try await api.client.send("DELETE", "/v1/locks/orders", headers: ["Lease-Token": token])
            #expect(release.status == 204)
            #expect(release.body.isEmpty)
            let lost = try await api.client.send("DELETE", "/v1/locks/orders", headers: ["Lease-Token": token])
            #expect(lost.status == 410)
            #expect(lost.text("code") == "lost")
            let late = try await api.client.send(
                "POST", "/v1/locks/orders/renew", #"{"ttl_ms": 20000, "token": "\#(token)"}"#)
            #expect(late.status == 410)
            try await api.expect(404, "GET", "/v1/locks/never")
        }
    }

    @Test("An owner that repeats its request gets the same fence")
    func sameOwner() async throws {
        try await HTTPTestAPI.with { api in
            let body = #"{"ttl_ms": 10000, "owner": "mine"}"#
            let first = try await api.client.send("POST", "/v1/locks/a", body)
            let second = try await api.client.send("POST", "/v1/locks/a", body)
            #expect(first.status == 201 && second.status == 201)
            #expect(first.integer("fence") == second.integer("fence"))
        }
    }

    @Test("A waiting request gets the lock when it is released")
    func waitingRequestGetsReleasedLock() async throws {
        try await HTTPTestAPI.with { api in
            let firstGrant = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000}"#)
            let token = try #require(firstGrant.text("token"))
            async let waiter = api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000, "wait_ms": 20000}"#)
            try await eventually("a call waits") { try await api.coordinator.inspectLock(ResourceName("a"))?.waiters == 1 }
            _ = try await api.client.send("DELETE", "/v1/locks/a", headers: ["Lease-Token": token])
            let nextGrant = try await waiter
            #expect(nextGrant.status == 201)
            #expect(try #require(nextGrant.integer("fence")) > (try #require(firstGrant.integer("fence"))))
        }
    }

    @Test("A lock is shown with the waiting sidecars and the outcomes of recent grants")
    func queueAndGrants() async throws {
        try await HTTPTestAPI.with { api in
            let firstGrant = try await api.client.send("POST", "/v1/locks/a%2Fb", #"{"ttl_ms": 30000, "label": "web-1"}"#)
            let token = try #require(firstGrant.text("token"))
            async let waiter = api.client.send("POST", "/v1/locks/a%2Fb", #"{"ttl_ms": 30000, "wait_ms": 20000}"#)
            try await eventually("a call waits") { await api.coordinator.status.lockWaiterCount == 1 }
            let information = try await api.client.send("GET", "/v1/locks/a%2Fb")
            #expect(information.body.contains(#""queue":[{"sidecar":"\#(api.coordinator.id)","waiters":1}]"#))
            _ = try await api.client.send("DELETE", "/v1/locks/a%2Fb", headers: ["Lease-Token": token])
            let nextGrant = try await waiter
            let grants = try await api.client.send("GET", "/v1/grants?lock=a%2Fb")
            #expect(grants.status == 200)
            let newest = #"{"grants":[{"end":null,"ended_ms":null,"fence":\#(nextGrant.integer("fence") ?? 0),"#
            #expect(grants.body.hasPrefix(newest))
            #expect(grants.body.contains(#""label":"web-1","mode":"exclusive","name":"a/b","permits":null"#))
            #expect(grants.body.contains(#""end":"released""#))
            #expect(try await api.client.send("GET", "/v1/grants?lock=other").body == #"{"grants":[]}"#)
            try await api.expect(400, "GET", "/v1/grants?lock=")
            try await api.expect(400, "GET", "/v1/grants?name=a")
        }
    }

    @Test("A client that disconnects while waiting neither keeps waiting nor gets the lock")
    func leavingClient() async throws {
        try await HTTPTestAPI.with { api in
            let firstGrant = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000}"#)
            let token = try #require(firstGrant.text("token"))
            let name = try ResourceName("a")
            let coordinator = api.coordinator
            try await api.client.follow("POST", "/v1/locks/a", #"{"ttl_ms": 30000, "wait_ms": 60000}"#) { _ in
                try await eventually("a call waits") { try await coordinator.inspectLock(name)?.waiters == 1 }
                return true
            }
            try await eventually("no call waits") { try await coordinator.inspectLock(name)?.waiters == 0 }
            #expect(try await coordinator.releaseLock(name, token: token))
            #expect(try await coordinator.inspectLock(name)?.label == nil)
        }
    }

    @Test(
        "A name in a path is percent-decoded exactly once",
        arguments: [("orders%2F7", "orders/7"), ("a%252Fb", "a%2Fb"), ("%C3%BCber", "über"), ("a+b", "a+b"), ("x%3Ay", "x:y")])
    func percentEncoding(path: String, name: String) async throws {
        try await HTTPTestAPI.with { api in
            let grant = try await api.client.send("POST", "/v1/locks/\(path)", #"{"ttl_ms": 10000}"#)
            #expect(grant.status == 201)
            #expect(grant.text("name") == name)
            let client = RedisClient(configuration: api.redis.configuration)
            try await client.connect()
            let key = try await client.send(AnyCommand(["EXISTS", "interlock:lock:{\(name)}"]))
            await client.close()
            #expect(key == .integer(1))
        }
    }

    @Test(
        "An invalid name is refused",
        arguments: ["a%20b", "a%7Bb", "a%00b", "%FF", "%zz", "", String(repeating: "x", count: 257)])
    func badNames(path: String) async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("POST", "/v1/locks/\(path)", #"{"ttl_ms": 10000}"#)
            #expect(refusal.status == 400)
            #expect(refusal.text("code") == "invalid")
        }
    }

    @Test("Held locks are listed")
    func heldLocksAreListed() async throws {
        try await HTTPTestAPI.with { api in
            _ = try await api.client.send("POST", "/v1/locks/alpha", #"{"ttl_ms": 10000}"#)
            _ = try await api.client.send("POST", "/v1/locks/beta", #"{"ttl_ms": 10000}"#)
            let page = try await api.client.send("GET", "/v1/locks?match=al*&count=1000")
            #expect(page.json["names"] == .array([.string("alpha")]))
            #expect(page.text("cursor") == "0")
            let detailed = try await api.client.send("GET", "/v1/locks?match=alpha&count=200&details=true")
            #expect(detailed.body.contains(#""locks":[{"fence":"#), "\(detailed.body)")
            #expect(detailed.body.contains(#""name":"alpha","permits":null,"queue":[]"#), "\(detailed.body)")
            try await api.expect(400, "GET", "/v1/locks?count=1000&details=true")
            try await api.expect(400, "GET", "/v1/locks?details=yes")
            try await api.expect(400, "GET", "/v1/locks?cursor=x")
            try await api.expect(400, "GET", "/v1/locks?count=0")
            try await api.expect(400, "GET", "/v1/locks?cusror=0")
        }
    }

    @Test("Only an admin breaks a lock, and the next fence is higher")
    func onlyAdminBreaksLock() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.ops, HTTPTestAPI.web]) { api in
            let web = ["X-Api-Key": "web-secret"]
            let ops = ["Authorization": "Bearer ops-secret"]
            let first = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 10000}"#, headers: web)
            let refusal = try await api.client.send("POST", "/v1/locks/a/break", headers: web)
            #expect(refusal.status == 403)
            try await api.expect(204, "POST", "/v1/locks/a/break", headers: ops)
            try await api.expect(404, "POST", "/v1/locks/a/break", headers: ops)
            let second = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 10000}"#, headers: web)
            let (old, new) = (try #require(first.integer("fence")), try #require(second.integer("fence")))
            #expect(new > old)
            let late = try await api.client.send("POST", "/v1/locks/a/break", #"{"fence": \#(old)}"#, headers: ops)
            #expect(late.status == 410)
            #expect(late.text("detail") == "the lock \"a\" is no longer held with the fence \(old); check who holds it now")
            try await api.expect(400, "POST", "/v1/locks/a/break", #"{"fence": 0}"#, headers: ops)
            try await api.expect(400, "POST", "/v1/locks/a/break", #"{"fense": 1}"#, headers: ops)
            try await api.expect(204, "POST", "/v1/locks/a/break", #"{"fence": \#(new)}"#, headers: ops)
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import Testing

@Suite("HTTP API: lock modes and multiple locks")
struct HTTPLockModeTests {
    @Test("Several readers share a lock, and a writer is refused until the last reader releases it")
    func severalReadersShareLock() async throws {
        try await HTTPTestAPI.with { api in
            let body = #"{"ttl_ms": 30000, "mode": "shared"}"#
            let first = try await api.client.send("POST", "/v1/locks/a", body)
            let second = try await api.client.send("POST", "/v1/locks/a", body)
            #expect(first.status == 201 && second.status == 201)
            #expect(try #require(second.integer("fence")) > (try #require(first.integer("fence"))))
            #expect(try await api.client.send("GET", "/v1/locks/a").integer("holders") == 2)

            for lease in [first, second] {
                let refusal = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000}"#)
                #expect(refusal.status == 409)
                #expect(refusal.text("code") == "held")
                let token = try #require(lease.text("token"))
                try await api.expect(204, "DELETE", "/v1/locks/a", headers: ["Lease-Token": token])
            }
            try await api.expect(201, "POST", "/v1/locks/a", #"{"ttl_ms": 30000, "mode": "exclusive"}"#)
        }
    }

    @Test("A semaphore has as many holders as slots")
    func semaphoreHasAsManyHoldersAsSlots() async throws {
        try await HTTPTestAPI.with { api in
            let body = #"{"ttl_ms": 30000, "permits": 2}"#
            let first = try await api.client.send("POST", "/v1/locks/a", body)
            #expect(first.status == 201)
            try await api.expect(201, "POST", "/v1/locks/a", body)
            try await api.expect(409, "POST", "/v1/locks/a", body)
            #expect(try await api.client.send("GET", "/v1/locks/a").integer("holders") == 2)

            let token = try #require(first.text("token"))
            try await api.expect(204, "DELETE", "/v1/locks/a", headers: ["Lease-Token": token])
            try await api.expect(201, "POST", "/v1/locks/a", body)
        }
    }

    @Test("A held semaphore cannot be acquired in another mode", arguments: ["exclusive", "shared"])
    func heldSemaphoreCannotBeAcquiredInAnotherMode(mode: String) async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/a", #"{"ttl_ms": 30000, "permits": 2}"#)
            let refusal = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000, "mode": "\#(mode)"}"#)
            #expect(refusal.status == 400)
            #expect(refusal.text("detail")?.contains("held as a semaphore with 2 slots") == true, "got: \(refusal.body)")
        }
    }

    @Test("Several locks are acquired together, with leases in the order of the request")
    func severalLocksAreAcquiredTogether() async throws {
        try await HTTPTestAPI.with { api in
            let grant = try await api.client.send("POST", "/v1/locks/b", #"{"ttl_ms": 30000, "also": ["c", "a"]}"#)
            #expect(grant.status == 201)
            #expect(grant.leases.map { $0.text("name") } == ["b", "c", "a"])
            for lease in grant.leases {
                let name = try #require(lease.text("name"))
                let token = try #require(lease.text("token"))
                #expect(lease.integer("fence") != nil)
                #expect(try #require(lease.integer("valid_ms")) > 0)
                try await api.expect(204, "DELETE", "/v1/locks/\(name)", headers: ["Lease-Token": token])
            }
        }
    }

    @Test("If one of several locks is held, none is acquired")
    func allOrNone() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/b", #"{"ttl_ms": 30000}"#)
            let refusal = try await api.client.send("POST", "/v1/locks/c", #"{"ttl_ms": 30000, "also": ["b", "a"]}"#)
            #expect(refusal.status == 409)
            #expect(refusal.text("code") == "held")
            try await eventually("the other locks are free") {
                let first = try await api.client.send("GET", "/v1/locks/a").status
                let last = try await api.client.send("GET", "/v1/locks/c").status
                return first == 404 && last == 404
            }
        }
    }

    @Test("A client that disconnects while waiting for the last of several locks holds none of them")
    func leavingClient() async throws {
        try await HTTPTestAPI.with { api in
            try await api.expect(201, "POST", "/v1/locks/b", #"{"ttl_ms": 30000}"#)
            let coordinator = api.coordinator
            let (taken, held) = (try ResourceName("a"), try ResourceName("b"))
            try await api.client.follow("POST", "/v1/locks/b", #"{"ttl_ms": 30000, "wait_ms": 60000, "also": ["a"]}"#) { _ in
                try await eventually("a call waits") { try await coordinator.inspectLock(held)?.waiters == 1 }
                #expect(try await coordinator.inspectLock(taken)?.label != nil)
                return true
            }
            try await eventually("no call waits") { try await coordinator.inspectLock(held)?.waiters == 0 }
            try await eventually("the other lock is free") { try await coordinator.inspectLock(taken)?.label == nil }
        }
    }

    @Test(
        "The error for conflicting fields names them",
        arguments: [
            (#""mode": "write""#, "mode: expected one of exclusive, shared, got \"write\""),
            (#""mode": "shared", "permits": 2"#, "permits cannot be combined with mode shared"),
            (#""permits": 0"#, "permits: expected a whole number from 1 to 1000000, got 0"),
            (#""permits": 1000001"#, "permits: expected a whole number from 1 to 1000000"),
            (#""also": "b""#, "also: expected an array of names, got a string"),
            (#""also": ["b", 7]"#, "also[1]: expected a string, got 7"),
            (#""also": ["b c"]"#, "also[0]: the name contains a space"),
            (#""also": ["a"]"#, "duplicate lock name \"a\""),
            (#""also": ["b"], "mode": "shared""#, "locks acquired together must be exclusive"),
            (#""also": ["b"], "permits": 2"#, "locks acquired together must be exclusive"),
            (#""linked": 1"#, "linked: expected true or false, got 1"),
        ])
    func wrong(fields: String, detail: String) async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 5000, \#(fields)}"#)
            #expect(refusal.status == 400)
            #expect(refusal.text("code") == "invalid")
            #expect(refusal.text("detail")?.contains(detail) == true, "got: \(refusal.body)")
        }
    }

    @Test("At most 31 further locks are acquired together with the one in the path", arguments: [(31, 201), (32, 400)])
    func maximum(others: Int, status: Int) async throws {
        try await HTTPTestAPI.with { api in
            let names = (1...others).map { "\"b\($0)\"" }.joined(separator: ", ")
            try await api.expect(status, "POST", "/v1/locks/a", #"{"ttl_ms": 30000, "also": [\#(names)]}"#)
        }
    }
}

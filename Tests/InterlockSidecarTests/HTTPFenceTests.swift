import InterlockProcesses
import Testing

@Suite("HTTP API: releases and renewals that name a fence", .timeLimit(.minutes(2)))
struct HTTPFenceTests {
    @Test("A late release or renewal of an earlier lease does not affect the owner's next lease")
    func late() async throws {
        try await HTTPTestAPI.with { api in
            let body = #"{"ttl_ms": 60000, "owner": "me"}"#
            let grant = try await api.client.send("POST", "/v1/locks/a", body)
            let first = try #require(grant.integer("fence"))
            try await api.expect(204, "DELETE", "/v1/locks/a", headers: ["Lease-Token": "me", "Lease-Fence": "\(first)"])
            let second = try #require(try await api.client.send("POST", "/v1/locks/a", body).integer("fence"))
            let late = try await api.client.send(
                "DELETE", "/v1/locks/a", headers: ["Lease-Token": "me", "Lease-Fence": "\(first)"])
            #expect(late.status == 410)
            #expect(late.text("code") == "lost")
            let renewal = #"{"token": "me", "ttl_ms": 600000, "fence": \#(first)}"#
            try await api.expect(410, "POST", "/v1/locks/a/renew", renewal)
            #expect(try #require(try await api.client.send("GET", "/v1/locks/a").integer("ttl_ms")) <= 60_000)
            try await api.expect(200, "POST", "/v1/locks/a/renew", #"{"token": "me", "ttl_ms": 60000, "fence": \#(second)}"#)
            try await api.expect(400, "DELETE", "/v1/locks/a", headers: ["Lease-Token": "me", "Lease-Fence": "x"])
            try await api.expect(400, "POST", "/v1/locks/a/renew", #"{"token": "me", "ttl_ms": 60000, "fence": 0}"#)
            try await api.expect(204, "DELETE", "/v1/locks/a", headers: ["Lease-Token": "me", "Lease-Fence": "\(second)"])
        }
    }

    @Test("A late DELETE /lock of an earlier lease does not affect the same key's next lease")
    func smallest() async throws {
        let web = ["X-Api-Key": "web-secret"]
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            let first = try #require(try await api.client.send("GET", "/lock?hash=a", headers: web).integer("fence"))
            try await api.expect(204, "DELETE", "/lock?hash=a&fence=\(first)", headers: web)
            let second = try #require(try await api.client.send("GET", "/lock?hash=a", headers: web).integer("fence"))
            try await api.expect(410, "DELETE", "/lock?hash=a&fence=\(first)", headers: web)
            try await api.expect(409, "GET", "/lock?hash=a", headers: web)
            try await api.expect(400, "DELETE", "/lock?hash=a&fence=x", headers: web)
            try await api.expect(204, "DELETE", "/lock?hash=a&fence=\(second)", headers: web)
        }
    }

    @Test("A client that joins a semaphore with another number of permits gets the actual number")
    func semaphoreSize() async throws {
        try await HTTPTestAPI.with { api in
            let first = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000, "permits": 3}"#)
            #expect(first.integer("permits") == 3)
            let joined = try await api.client.send("POST", "/v1/locks/a", #"{"ttl_ms": 30000, "permits": 1}"#)
            #expect(joined.status == 201)
            #expect(joined.integer("permits") == 3, "\(joined.body)")
            let exclusive = try await api.client.send("POST", "/v1/locks/b", #"{"ttl_ms": 30000}"#)
            #expect(!exclusive.body.contains("permits"))
        }
    }
}

import Testing

@Suite("HTTP API: the minimal lock")
struct HTTPMinimalLockTests {
    private let web = ["X-Api-Key": "web-secret"]
    private let ops = ["X-Api-Key": "ops-secret"]

    @Test("Without a configured key, a URL alone cannot acquire a lock")
    func needsKeys() async throws {
        try await HTTPTestAPI.with { api in
            let refusal = try await api.client.send("GET", "/lock?hash=a")
            #expect(refusal.status == 401)
            #expect(refusal.headers["www-authenticate"] == "Bearer realm=\"interlock\"")
            try await api.expect(401, "DELETE", "/lock?hash=a", headers: web)
        }
    }

    @Test("The lock also excludes the same key, and only that key releases it")
    func takeAndFree() async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.ops, HTTPTestAPI.web]) { api in
            try await api.expect(200, "GET", "/lock?hash=a%2Fb&ttl=20", headers: web)
            try await api.expect(409, "GET", "/lock?hash=a%2Fb", headers: web)
            #expect(try await api.client.send("GET", "/v1/locks/a%2Fb", headers: ops).text("label") == "web")
            try await api.expect(410, "DELETE", "/lock?hash=a%2Fb", headers: ops)
            try await api.expect(204, "DELETE", "/lock?hash=a%2Fb", headers: web)
            try await api.expect(410, "DELETE", "/lock?hash=a%2Fb", headers: web)
            try await api.expect(200, "GET", "/lock?hash=a%2Fb", headers: ops)
        }
    }

    @Test("Reading the lock does not acquire it", arguments: ["HEAD", "OPTIONS", "POST"])
    func otherMethods(method: String) async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            let refusal = try await api.client.send(method, "/lock?hash=a", headers: web)
            #expect(refusal.status == 405)
            #expect(refusal.headers["allow"] == "GET, DELETE")
        }
    }

    @Test(
        "An invalid query is rejected",
        arguments: ["", "?hash=", "?hash=a&ttl=0", "?hash=a&ttl=x", "?hash=a&hash=b", "?hash=a&x=1"])
    func badQueries(query: String) async throws {
        try await HTTPTestAPI.with(keys: [HTTPTestAPI.web]) { api in
            try await api.expect(400, "GET", "/lock\(query)", headers: web)
        }
    }
}

import Hiredis
import InterlockProcesses
import InterlockTesting
import Testing

@Suite("Commands against a real server", .timeLimit(.minutes(1)))
struct CommandTests {
    @Test("each typed command reads its reply")
    func typed() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                try await client.send(Ping())
                let fields = [(name: "state", value: "open"), (name: "cause", value: "")]
                #expect(try await client.send(SetFields(key: "hash", fields: fields)) == 2)
                #expect(try await client.send(SetFields(key: "hash", fields: fields)) == 0)
                #expect(try await client.words("HGET", "hash", "state") == .bulk("open"))
                #expect(try await client.send(ExpireKey(key: "hash", milliseconds: 60_000)))
                #expect(try await client.send(ExpireKey(key: "absent", milliseconds: 60_000)) == false)
                #expect(try await client.send(DeleteKey(key: "hash")))
                #expect(try await client.send(DeleteKey(key: "hash")) == false)
                let info = try await client.send(Info(section: "server"))
                #expect(info["redis_version"]?.isEmpty == false)
                #expect(info["config_file"] == "")
            }
        }
    }

    @Test("a scan finds every key of its type and pattern, step by step")
    func scan() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                for number in 0..<100 { _ = try await client.words("SET", "lock:\(number)", "x") }
                _ = try await client.words("SET", "other", "x")
                _ = try await client.words("RPUSH", "lock:list", "x")
                var found: Set<String> = []
                var cursor = "0"
                var steps = 0
                repeat {
                    let step = try await client.send(Scan(cursor: cursor, pattern: "lock:*", count: 10, type: "string"))
                    found.formUnion(step.keys)
                    cursor = step.cursor
                    steps += 1
                } while cursor != "0"
                #expect(found == Set((0..<100).map { "lock:\($0)" }))
                #expect(steps > 1)
            }
        }
    }

    @Test("a reply of another shape is told from a server's error")
    func unexpectedReply() async throws {
        try await MisbehavingRedis.withServer { _ in
            .text("+QUEUED\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                let code = await failureCode { _ = try await client.send(DeleteKey(key: "key")) }
                #expect(code == .unexpectedReply)
            }
        }
    }

    @Test("a bulk of a megabyte goes there and comes back")
    func largeValue() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let value = String(repeating: "0123456789abcdef", count: 1 << 16)
                _ = try await client.words("SET", "key", value)
                #expect(try await client.words("GET", "key") == .bulk(value))
            }
        }
    }

    @Test("the port of a server serves as its socket does")
    func port() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "secret"]) { server in
            for url in [server.url, try #require(server.portURL)] {
                try await withClient(try RedisConfiguration(url: url)) { client in
                    try await client.send(Ping(), timeout: .seconds(10))
                }
            }
        }
    }
}

import InterlockProcesses
import InterlockTesting
import RedisClient
import Testing

@Suite("Scripts", .timeLimit(.minutes(1)))
struct ScriptTests {
    @Test("A script's digest is the SHA-1 that Redis uses")
    func scriptDigestIsSHA1ThatRedisUses() {
        #expect(RedisScript(name: "one.lua", source: Array("return 1".utf8)).digest == "e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
    }

    @Test("A script runs even if the server does not know it, and again after the server has dropped it")
    func unknownScriptIsLoaded() async throws {
        let argument = (0...255).map { UInt8($0) }
        let expected = RedisReply.array([.bulk("key"), .bulk(argument)])
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let first = try await client.send(EchoScript(key: "key", argument: argument))
                #expect(first == expected)
                #expect(try await client.send(EchoScript(key: "key", argument: argument)) == expected)
                #expect(try await client.sendCommand("SCRIPT", "FLUSH") == .status("OK"))
                #expect(try await client.send(EchoScript(key: "key", argument: argument)) == expected)
            }
        }
    }

    @Test("A script is sent by its digest, and with its source only if the server does not know it")
    func scriptIsSentByDigest() async throws {
        try await MisbehavingRedis.withServer { command in
            .text(command.index == 0 ? "-NOSCRIPT No matching script.\r\n" : "+OK\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                for _ in 0..<2 { _ = try await client.send(EchoScript(key: "key", argument: [])) }
            }
            let source = String(decoding: EchoScript.code.source, as: UTF8.self)
            #expect(
                server.commands.map { Array($0.text.prefix(2)) } == [
                    ["EVALSHA", EchoScript.code.digest], ["EVAL", source], ["EVALSHA", EchoScript.code.digest],
                ])
        }
    }

    @Test("When many calls find a script missing, one of them sends its source")
    func sourceOnce() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number: UInt8 in 0..<50 {
                        group.addTask {
                            let reply = try await client.send(EchoScript(key: "key", argument: [number]))
                            #expect(reply == .array([.bulk("key"), .bulk([number])]))
                        }
                    }
                    try await group.waitForAll()
                }
                let statistics = try await client.send(Info(section: "commandstats"))["cmdstat_eval"] ?? ""
                #expect(statistics.hasPrefix("calls=1,"), "\(statistics)")
            }
        }
    }

    @Test("A command sends the source of its script only once, even if the server never keeps it")
    func noEndlessReload() async throws {
        try await MisbehavingRedis.withServer { _ in
            .text("-NOSCRIPT No matching script.\r\n")
        } _: { server in
            try await withClient(server.configuration) { client in
                let code = await failureCode { _ = try await client.send(EchoScript(key: "key", argument: [])) }
                #expect(code == .server(.noScript))
            }
            #expect(server.commands.count == 2)
        }
    }
}

/// A script that returns its key and its argument.
struct EchoScript: ScriptCommand, Sendable {
    static let code = RedisScript(name: "echo.lua", source: Array("return {KEYS[1], ARGV[1]}".utf8))

    var key: String
    var argument: [UInt8]

    var script: RedisScript { Self.code }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(key)
        encoder.append(argument)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}

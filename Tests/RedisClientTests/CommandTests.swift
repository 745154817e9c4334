import InterlockProcesses
import InterlockTesting
import NIOCore
import Testing

@testable import RedisClient

@Suite("Commands against a real server", .timeLimit(.minutes(1)))
struct CommandTests {
    @Test("Each typed command decodes its reply")
    func eachTypedCommandDecodesItsReply() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                try await client.send(Ping())
                let fields = [(name: "state", value: "open"), (name: "cause", value: "")]
                #expect(try await client.send(SetFields(key: "hash", fields: fields)) == 2)
                #expect(try await client.send(SetFields(key: "hash", fields: fields)) == 0)
                #expect(try await client.sendCommand("HGET", "hash", "state") == .bulk("open"))
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

    @Test("A scan finds every key of its type and pattern, step by step")
    func scanFindsEveryMatchingKey() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                for number in 0..<100 { _ = try await client.sendCommand("SET", "lock:\(number)", "x") }
                _ = try await client.sendCommand("SET", "other", "x")
                _ = try await client.sendCommand("RPUSH", "lock:list", "x")
                var foundKeys: Set<String> = []
                var cursor = "0"
                var steps = 0
                repeat {
                    let step = try await client.send(Scan(cursor: cursor, pattern: "lock:*", count: 10, type: "string"))
                    foundKeys.formUnion(step.keys)
                    cursor = step.cursor
                    steps += 1
                } while cursor != "0"
                #expect(foundKeys == Set((0..<100).map { "lock:\($0)" }))
                #expect(steps > 1)
            }
        }
    }

    @Test("A reply of an unexpected shape differs from a server's error")
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

    @Test("A bulk string of a megabyte is stored and read back")
    func largeValue() async throws {
        try await RedisServer.withServer { server in
            try await withClient(server.configuration) { client in
                let value = String(repeating: "0123456789abcdef", count: 1 << 16)
                _ = try await client.sendCommand("SET", "key", value)
                #expect(try await client.sendCommand("GET", "key") == .bulk(value))
            }
        }
    }

    @Test("A client can connect to the Unix socket and to the port")
    func clientCanConnectToUnixSocketAndToPort() async throws {
        try await RedisServer.withServer(arguments: ["--requirepass", "secret"]) { server in
            for url in [server.url, try #require(server.portURL)] {
                try await withClient(try RedisConfiguration(url: url)) { client in
                    try await client.send(Ping(), timeout: .seconds(10))
                }
            }
        }
    }
}

@Suite("Command encoder")
struct CommandEncoderTests {
    private func wire(_ collect: (inout CommandEncoder) -> Void) -> String {
        var encoder = CommandEncoder()
        collect(&encoder)
        var buffer = ByteBuffer()
        encoder.format(into: &buffer)
        return String(buffer: buffer)
    }

    @Test("A command is an array of bulk strings")
    func commandIsArrayOfBulkStrings() {
        #expect(
            wire {
                $0.append("SET")
                $0.append("key")
                $0.append("grün")
            } == "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\ngrün\r\n")
    }

    @Test("An argument may be empty, even the last or the only one")
    func anyArgumentMayBeEmpty() {
        #expect(
            wire {
                $0.append("ECHO")
                $0.append("")
            } == "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n")
        #expect(wire { $0.append("") } == "*1\r\n$0\r\n\r\n")
    }

    @Test("An argument may be any bytes")
    func argumentMayBeAnyBytes() {
        var encoder = CommandEncoder()
        let bytes = (0...255).map { UInt8($0) }
        encoder.append(bytes)
        var buffer = ByteBuffer()
        encoder.format(into: &buffer)
        #expect(Array(buffer.readableBytesView) == Array("*1\r\n$256\r\n".utf8) + bytes + Array("\r\n".utf8))
    }

    @Test(
        "A number is written in decimal",
        arguments: [0, 7, -7, 10, 100, -100, 1_234_567_890, .max, .min] as [Int64]
    )
    func numberIsWrittenInDecimal(value: Int64) {
        let text = "\(value)"
        #expect(wire { $0.append(value) } == "*1\r\n$\(text.utf8.count)\r\n\(text)\r\n")
    }

    @Test("An encoder is empty after a command is formatted")
    func encoderIsEmptyAfterCommandIsFormatted() {
        var encoder = CommandEncoder()
        var buffer = ByteBuffer()
        for word in ["A", "B"] {
            encoder.append(word)
            encoder.format(into: &buffer)
        }
        #expect(String(buffer: buffer) == "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n")
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import SidecarSettings
import NIOCore
import NIOPosix
import NIOSSL
import RedisClient
import Synchronization
import Testing

/// Requirements of client libraries beyond the commands: bytes are returned unchanged, and answers are unambiguous.
@Suite("RESP API: the protocol")
struct RESPProtocolTests {
    @Test("ECHO and PING return bytes unchanged, including those that are not text")
    func echoAndPingReturnBytesUnchanged() async throws {
        try await RESPTestAPI.with { api async throws in
            let bytes: [UInt8] = [0xFF, 0x00, 0xC3, 0x28, 0x0D, 0x0A]
            #expect(try await api.client.send(ByteCommand(name: "ECHO", argument: bytes)) == .bulk(bytes))
            #expect(try await api.client.send(ByteCommand(name: "PING", argument: bytes)) == .bulk(bytes))
        }
    }

    @Test(
        "The error for another library's lock command names LOCK.ACQUIRE",
        arguments: [["SET", "orders", "x", "NX", "PX", "30000"], ["set", "a", "b"], ["SETNX", "a", "b"]])
    func locksOfRedis(words: [String]) async throws {
        try await RESPTestAPI.with { api in
            let message = "ERR unknown command '\(words[0])'; to acquire a lock, use LOCK.ACQUIRE"
            guard case .error(let error) = try await api.send(words) else {
                Issue.record("the reply is not an error")
                return
            }
            #expect(error.message == message)
        }
    }

    @Test(
        "The error for an unknown command, service or domain suggests the closest name",
        arguments: [
            (["LOCK.AQUIRE", "a", "1000"], "ERR unknown command 'LOCK.AQUIRE'; did you mean LOCK.ACQUIRE?"),
            (["lock.aquire", "a", "1000"], "ERR unknown command 'lock.aquire'; did you mean LOCK.ACQUIRE?"),
            (["ZRANGEBYLEX", "a"], "ERR unknown command 'ZRANGEBYLEX'; see COMMAND LIST"),
            (["LIMIT.TAKE", "catlog"], "UNKNOWN no service \"catlog\" is configured; did you mean catalog?"),
            (
                ["LIMIT.TAKE", "payments"],
                "UNKNOWN no service \"payments\" is configured; list the services, or see `services` in the configuration"
            ),
            (
                ["LIMIT.PEEK", "egde", "DESCRIPTOR", "ip=x"],
                "INVALID no domain \"egde\" is configured; did you mean edge?"
            ),
        ])
    func errorSuggestsClosestName(words: [String], text: String) async throws {
        var domains = DomainSettings()
        domains.definitions = [RateLimitDomain(name: "edge", rules: [])]
        try await RESPTestAPI.with(domains: domains) { api in
            guard case .error(let error) = try await api.send(words) else {
                Issue.record("the reply is no error")
                return
            }
            #expect(error.message == text)
        }
    }

    @Test("COMMAND answers its subcommands in the format of Redis 7")
    func commandAnswersSubcommandsInFormatOfRedis7() async throws {
        try await RESPTestAPI.with { api in
            let all = try await api.send("COMMAND").array ?? []
            #expect(all.allSatisfy { $0.array?.count == 10 })
            #expect(try await api.send("COMMAND", "COUNT").integer == Int64(all.count))
            #expect(try await api.send("COMMAND", "LIST").array?.compactMap(\.text) == all.map { $0.array?[0].text ?? "" })
            let some = try await api.send("COMMAND", "INFO", "lock.acquire", "get").array ?? []
            #expect(some.count == 2)
            #expect(some.first?.array?.first?.text == "lock.acquire")
            #expect(some.last == .null)
            let documents = try await api.send("COMMAND", "DOCS", "ping", "get").array ?? []
            #expect(documents.count == 2)
            #expect(documents.first?.text == "ping")
            #expect(try await api.errorCode("COMMAND", "GETKEYS", "ping") == "ERR")
        }
    }

    @Test(
        "Commands between MULTI and EXEC are refused with Redis's error",
        arguments: ["EXEC", "DISCARD"])
    func transaction(end: String) async throws {
        try await RESPTestAPI.with { api async throws in
            #expect(try await api.send("MULTI").text == "OK")
            #expect(try await api.errorCode("MULTI") == "ERR")
            #expect(try await api.errorCode("LOCK.ACQUIRE", "orders", "30000") == "ERR")
            #expect(try await api.errorCode(end) == (end == "EXEC" ? "EXECABORT" : nil))
            #expect(try await api.send("LOCK.INFO", "orders") == .null)
            #expect(try await api.send("LOCK.ACQUIRE", "orders", "30000").array?.count == 3)
            #expect(try await api.errorCode("EXEC") == "ERR")
        }
    }

    @Test("A subscriber that does not read is disconnected, and buffers at most 4 MiB")
    func stalledSubscriberIsDisconnected() async throws {
        // The client must be dropped for the amount of unread data, not for the time since its last read.
        try await RESPTestAPI.with(stallTimeout: .seconds(600)) { api in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4096)
                .connect(host: "127.0.0.1", port: api.port).get()
            try await channel.writeAndFlush(ByteBuffer(string: "SUBSCRIBE interlock:events\r\n")).get()
            // Every subscriber receives each change.
            let reason = String(repeating: "x", count: 200)
            for round in 0..<400 {
                var pipeline = ByteBuffer()
                for _ in 0..<100 {
                    pipeline.writeString("BREAKER.FORCE catalog \(round % 2 == 0 ? "open" : "closed") REASON \(reason)\r\n")
                }
                pipeline.writeString("ECHO done\r\n")
                _ = try await RawConnection.exchange(port: api.port, pipeline) { $0.contains("$4\r\ndone\r\n") }
                if await api.coordinator.status.redisCommandCount > 0, try await api.connections() == 1 { break }
            }
            let count = try await api.connections()
            #expect(count == 1)
            try? await channel.close()
        }
    }

    @Test("UNSUBSCRIBE from another channel, which some clients use as a ping, keeps the subscription")
    func otherUnsubscribeKeepsSubscription() async throws {
        try await RESPTestAPI.with { api in
            let replies = try await api.exchange(
                "HELLO 3\r\nSUBSCRIBE interlock:events\r\nUNSUBSCRIBE other\r\nUNSUBSCRIBE\r\nQUIT\r\n")
            #expect(replies.contains(">3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:1\r\n"))
            #expect(replies.contains("$16\r\ninterlock:events\r\n:0\r\n"))
        }
    }

    @Test("RESET aborts the transaction")
    func resetAbortsTransaction() async throws {
        try await RESPTestAPI.with { api async throws in
            #expect(try await api.send("MULTI").text == "OK")
            #expect(try await api.send("RESET").text == "RESET")
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("AUTH ignores the user name \"default\", like HELLO")
    func defaultUser() async throws {
        let keys = [APIKey(name: "web", secret: "correct-horse-battery-staple", role: .use)]
        try await RESPTestAPI.with(keys: keys) { api in
            let bytes =
                "AUTH default correct-horse-battery-staple\r\nAUTH default wrong\r\nAUTH nobody correct-horse-battery-staple\r\nQUIT\r\n"
            let replies = try await api.exchange(bytes).split(separator: "\r\n")
            #expect(replies.map { $0.prefix { $0 != " " } } == ["+OK", "-WRONGPASS", "-WRONGPASS", "+OK"])
        }
    }

    @Test("INFO reports the role of a primary, which clients such as valkey-glide request first")
    func infoReportsPrimaryRole() async throws {
        try await RESPTestAPI.with { api in
            let report = try await api.send("INFO", "REPLICATION").text ?? ""
            #expect(report.split(separator: "\r\n").contains("role:master"))
        }
    }

    @Test("Inline commands accept quoted words, as eredis sends for AUTH")
    func quotedWords() async throws {
        let keys = [APIKey(name: "web", secret: "correct-horse-battery-staple", role: .use)]
        try await RESPTestAPI.with(keys: keys) { api in
            let bytes =
                "AUTH \"correct-horse-battery-staple\"\r\nECHO 'two words'\r\nECHO \"\\x41\\r\\\"\"\r\n"
                + "ECHO 'it\\'s'\r\nPING a\"b c\"\r\nECHO \"\"\r\nECHO \"open\r\nPING\r\n"
            let replies = try await api.exchange(bytes)
            #expect(
                replies == "+OK\r\n$9\r\ntwo words\r\n$3\r\nA\r\"\r\n$4\r\nit's\r\n$4\r\nab c\r\n$0\r\n\r\n"
                    + "-ERR Protocol error: unbalanced quotes in request\r\n")
        }
    }

    @Test("TLS older than 1.2 is refused", arguments: [(TLSVersion.tlsv11, false), (.tlsv12, true)])
    func oldTLS(version: TLSVersion, isServed: Bool) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try await RESPTestAPI.with(tls: try await TestCertificate.selfSigned(in: folder.path)) { api in
            var address = RedisConfiguration(address: .host("127.0.0.1", port: api.port))
            address.tls = RESPTestAPI.clientTLS(upTo: version)
            let client = RedisClient(configuration: address)
            var isConnected = true
            do { try await client.connect() } catch { isConnected = false }
            await client.close()
            #expect(isConnected == isServed)
        }
    }

    @Test("Pending replies of a closed connection are written once, even in one write")
    func lastReplies() async throws {
        try await RESPTestAPI.with { api in
            try await api.send("LOCK.ACQUIRE", "orders", "30000")
            let echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + String(repeating: "x", count: 60_000) + "\r\n"
            let replies = try await api.exchange("LOCK.ACQUIRE orders 1000 WAIT 50\r\n" + echo + echo + "QUIT\r\n")
            let expected = "$-1\r\n".utf8.count + 2 * ("$60000\r\n\r\n".utf8.count + 60_000) + "+OK\r\n".utf8.count
            #expect(replies.utf8.count == expected)
        }
    }

    private static let keys = [APIKey(name: "web", secret: "correct-horse-battery-staple", role: .use)]

    @Test("An unauthenticated client may send ten arguments and 16 KiB")
    func smallBeforeLogin() async throws {
        try await RESPTestAPI.with(keys: Self.keys) { api async throws in
            let many = "*11\r\n" + String(repeating: "$1\r\nx\r\n", count: 11)
            #expect(try await api.exchange(many).hasPrefix("-ERR Protocol error"))
            let large = "*2\r\n$4\r\nAUTH\r\n$20000\r\n"
            #expect(try await api.exchange(large).hasPrefix("-ERR Protocol error"))
            let line = String(repeating: "x", count: 16 * 1024 + 1) + "\r\n"
            #expect(try await api.exchange(line).hasPrefix("-ERR Protocol error: an inline command is longer than 16384"))
            #expect(try await api.send("PING").text == "PONG")
            // An authenticated client may send the same request.
            let login = "AUTH correct-horse-battery-staple\r\n"
            #expect(try await api.exchange(login + many + "QUIT\r\n").contains("unknown command"))
        }
    }

    @Test("A client that does not authenticate in time is refused, and an authenticated one stays")
    func lateLogin() async throws {
        try await RESPTestAPI.with(keys: Self.keys, loginTimeout: .milliseconds(100)) { api async throws in
            #expect(try await api.exchange("").hasPrefix("-NOAUTH"))
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("A client that does not finish the TLS handshake is disconnected")
    func lateHandshake() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let certificate = try await TestCertificate.selfSigned(in: folder.path)
        try await RESPTestAPI.with(tls: certificate, loginTimeout: .seconds(1)) { api async throws in
            #expect(try await api.exchange("\u{16}").isEmpty)
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("The Unix socket accepts clients when all other slots are in use")
    func unixSocketHasReservedSlots() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = "\(folder.path)/resp.sock"
        try await RESPTestAPI.with(unix: path, maximumConnections: 1) { api async throws in
            #expect(try await api.exchange("PING\r\n").hasPrefix("-ERR max number of clients"))
            let local = RedisClient(configuration: RedisConfiguration(address: .unixSocket(path: path)))
            try await local.connect()
            #expect(try await local.send(AnyCommand(["PING"])) == .status("PONG"))
            await local.close()
            // The client that occupies the only slot is unaffected.
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("Replies that wait for an earlier one pause reading once their buffer is full")
    func waitingReplies() async throws {
        try await RESPTestAPI.with { api in
            try await api.send("LOCK.ACQUIRE", "orders", "30000")
            let echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + String(repeating: "x", count: 60_000) + "\r\n"
            // The replies exceed all buffers, so the listener can read everything only once it need not keep replies.
            let bytes = "LOCK.ACQUIRE orders 1000 WAIT 2000\r\n" + String(repeating: echo, count: 600) + "QUIT\r\n"
            let order = EventLog()
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(FirstBytes(order: order))
                    }
                }
                .connect(host: "127.0.0.1", port: api.port).get()
            channel.writeAndFlush(ByteBuffer(string: bytes)).whenSuccess { order.record("all was read") }
            #expect(try await api.send("PING").text == "PONG")
            try await channel.closeFuture.get()
            #expect(order.recorded == ["an answer", "all was read"])
        }
    }
}

/// A command whose argument need not be text.
private struct ByteCommand: RedisCommand {
    var name: String
    var argument: [UInt8]

    func encode(into encoder: inout CommandEncoder) {
        encoder.append(name)
        encoder.append(argument)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}

/// Records events in order.
private final class EventLog: Sendable {
    private let events = Mutex<[String]>([])
    var recorded: [String] { events.withLock { $0 } }
    func record(_ event: String) { events.withLock { $0.append(event) } }
}

/// Records the arrival of the first bytes.
private final class FirstBytes: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let order: EventLog
    private var hasReceived = false

    init(order: EventLog) {
        self.order = order
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !hasReceived { order.record("an answer") }
        hasReceived = true
    }
}

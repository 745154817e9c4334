import Interlock
import InterlockCore
import InterlockProcesses
import SidecarSettings
import NIOCore
import RedisClient
import Testing

@Suite("RESP API: commands")
struct RESPAPITests {
    @Test("A lock is acquired, inspected, renewed and released by commands")
    func lockLife() async throws {
        try await RESPTestAPI.with { api in
            let grant = try await api.send("LOCK.ACQUIRE", "orders", "30000", "LABEL", "web-1").array ?? []
            #expect(grant.count == 3)
            let token = grant.first?.text ?? ""
            #expect(token.hasPrefix("web-1/"))
            #expect(try await api.send("lock.acquire", "orders", "30000") == .null)
            let information = try await api.send("LOCK.INFO", "orders").array?.map { $0.text ?? "\($0.integer ?? 0)" } ?? []
            #expect(Array(information.prefix(2)) == ["label", "web-1"])
            #expect(!information.contains(token))
            #expect(try await api.send("LOCK.LIST") == .array([.bulk(Array("0".utf8)), .array([.bulk(Array("orders".utf8))])]))
            #expect(try await api.send("LOCK.RENEW", "orders", token, "60000").integer ?? 0 > 50_000)
            #expect(try await api.send("LOCK.RENEW", "orders", "other", "60000") == .null)
            #expect(try await api.send("LOCK.RELEASE", "orders", "other") == .integer(0))
            #expect(try await api.send("LOCK.RELEASE", "orders", token) == .integer(1))
            #expect(try await api.send("LOCK.INFO", "orders") == .null)
            #expect(try await api.send("LOCK.BREAK", "orders") == .integer(0))
            #expect(try await api.send("LOCK.BREAK", "orders", "FENCE", "1") == .integer(0))
            for wrong in [["FENCE"], ["FENCE", "0"], ["FENCE", "x"], ["FENCE", "9007199254740992"], ["FENSE", "1"]] {
                guard case .error(let error) = try await api.client.send(AnyCommand(["LOCK.BREAK", "orders"] + wrong)) else {
                    Issue.record("\(wrong) is accepted")
                    continue
                }
                #expect(error.message.hasPrefix("INVALID "))
            }
        }
    }

    @Test("CL.THROTTLE returns five numbers, in whole seconds")
    func clThrottleReturnsFiveNumbers() async throws {
        try await RESPTestAPI.with { api in
            var replies: [[Int64]] = []
            for quantity in [[], ["1"], ["1"], ["3"], ["0"]] {
                let reply = try await api.send(["CL.THROTTLE", "mail", "1", "1", "1000"] + quantity)
                replies.append(reply.array?.compactMap(\.integer) ?? [])
            }
            #expect(
                replies == [
                    [0, 2, 1, -1, 1000], [0, 2, 0, -1, 2000], [1, 2, 0, 1000, 2000], [1, 2, 0, -1, 2000], [0, 2, 0, -1, 2000],
                ])
        }
    }

    @Test("Eleven takes of a limit of ten trip the breaker")
    func limitAndBreaker() async throws {
        try await RESPTestAPI.with { api in
            var limited: [Int64] = []
            for _ in 0..<11 { limited.append(try await api.send("LIMIT.TAKE", "catalog").array?.first?.integer ?? -1) }
            #expect(limited == Array(repeating: 0, count: 10) + [1])
            try await eventually(within: .seconds(5), "the breaker is open") {
                try await api.send("PERMIT.ACQUIRE", "catalog").array?[1].text == "open"
            }
            let state = try await api.send("BREAKER.STATE", "catalog").array?.map { $0.text ?? "" } ?? []
            #expect(state.count == 34)
            #expect(try await api.send("BREAKER.LIST").array?.count == 1)
            #expect(try await api.send("BREAKER.FORCE", "catalog", "AUTO").text == "OK")
            #expect(try await api.send("LIMIT.PEEK", "catalog").array?.first?.integer == 1)
        }
    }

    @Test("With NAMED the binding limit is named, and LIMIT.LIST describes every limit")
    func namedLimits() async throws {
        let service = ServiceDefinition(
            name: "search",
            limits: [
                LimitDefinition(name: "all", limit: 3, window: .seconds(600)),
                LimitDefinition(name: "tenant", limit: 1, window: .seconds(600), isPerSubject: true),
                LimitDefinition(name: "trial", limit: 1, window: .seconds(600), isShadow: true),
            ])
        try await RESPTestAPI.with(services: [service]) { api in
            let grant = try await api.send("LIMIT.TAKE", "search", "SUBJECT", "a", "NAMED").array ?? []
            #expect(grant.count == 6)
            #expect(grant.last?.text == "tenant")
            let refusal = try await api.send("LIMIT.TAKE", "search", "SUBJECT", "a", "NAMED").array ?? []
            #expect(refusal.first?.integer == 1)
            #expect(refusal.last?.text == "tenant")
            #expect(try await api.send("LIMIT.PEEK", "search", "NAMED").array?.last?.text == "all")
            #expect(try await api.send("LIMIT.TAKE", "search").array?.count == 5)
            func names(_ words: String...) async throws -> [String] {
                try await api.send(["LIMIT.LIST", "search"] + words).array?.compactMap { $0.array?[1].text } ?? []
            }
            #expect(try await names() == ["all", "trial"])
            #expect(try await names("SUBJECT", "a") == ["all", "tenant", "trial"])
            #expect(try await api.errorCode("LIMIT.LIST", "absent") == "UNKNOWN")
        }
    }

    @Test("A granted permit is reported once, and a second report is rejected")
    func grantedPermitIsReportedOnce() async throws {
        try await RESPTestAPI.with { api in
            let permit = try await api.send("PERMIT.ACQUIRE", "catalog", "COST", "2").array ?? []
            #expect(permit.first?.integer == 1)
            let id = permit[1].text ?? ""
            #expect(try await api.send("PERMIT.REPORT", "catalog", id, "OK", "LATENCY", "12", "STATUS", "200").text == "closed")
            #expect(try await api.errorCode("PERMIT.REPORT", "catalog", id, "OK") == "INVALID")
        }
    }

    /// Invalid commands, each with the first word of its error.
    private static let wrongCalls: [([String], String)] = [
        (["NOPE"], "ERR"), (["LOCK.ACQUIRE"], "ERR"), (["LOCK.ACQUIRE", "a"], "ERR"), (["PING", "a", "b"], "ERR"),
        (["LOCK.ACQUIRE", "a", "x"], "INVALID"), (["LOCK.ACQUIRE", "a", "0"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "-5"], "INVALID"), (["LOCK.ACQUIRE", "a", "99999999999999999999"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "3600001"], "INVALID"), (["LOCK.ACQUIRE", "a b", "1000"], "INVALID"),
        (["LOCK.ACQUIRE", "{a}", "1000"], "INVALID"), (["LOCK.ACQUIRE", "", "1000"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "WAIT"], "INVALID"), (["LOCK.ACQUIRE", "a", "1000", "WAIT", "-1"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "NOPE", "1"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "WAIT", "1", "WAIT", "1"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "LINKED", "LINKED"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "SHARED", "PERMITS", "2"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "PERMITS"], "INVALID"), (["LOCK.ACQUIRE", "a", "1000", "PERMITS", "0"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "PERMITS", "1000001"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "LABEL", "permits-5"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "OWNER", "shared/x"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "ALSO"], "INVALID"), (["LOCK.ACQUIRE", "a", "1000", "ALSO", "2", "b"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "ALSO", "1", "a"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "ALSO", "1", "{b}"], "INVALID"),
        (["LOCK.ACQUIRE", "a", "1000", "SHARED", "ALSO", "1", "b"], "INVALID"),
        (["LIMIT.TAKE", "nope"], "UNKNOWN"), (["LIMIT.TAKE", "catalog", "COST", "0"], "INVALID"),
        (["LIMIT.TAKE", "catalog", "COST", "1000000"], "INVALID"),
        (["PERMIT.ACQUIRE", "catalog", "COST", "1000000", "WAIT", "1000"], "INVALID"),
        (["CL.THROTTLE", "a", "-1", "1", "1"], "INVALID"), (["CL.THROTTLE", "a", "1", "0", "1"], "INVALID"),
        (["CL.THROTTLE", "a", "1", "1", "0"], "INVALID"), (["CL.THROTTLE", "a", "1", "1", "1", "-1"], "INVALID"),
        (["CL.THROTTLE", "{a}", "1", "1", "1"], "INVALID"), (["CL.THROTTLE", "a", "1", "1"], "ERR"),
        (["CL.THROTTLE", "a", "1000000", "1", "31622400"], "INVALID"),
        (["LIMIT.TAKE", "catalog", "COST", "x"], "INVALID"), (["PERMIT.ACQUIRE", "nope"], "UNKNOWN"),
        (["PERMIT.REPORT", "catalog", "zz", "OK"], "INVALID"),
        (["PERMIT.REPORT", "catalog", "00000000000000000000000000000000", "OK"], "INVALID"),
        (["PERMIT.REPORT", "catalog", "00000000000000000000000000000000", "MAYBE"], "INVALID"),
        (["BREAKER.STATE", "nope"], "UNKNOWN"), (["BREAKER.FORCE", "catalog", "AJAR"], "INVALID"),
        (["LOCK.LIST", "x"], "INVALID"), (["LOCK.LIST", "0", "COUNT", "0"], "INVALID"), (["SELECT", "1"], "INVALID"),
        (["SUBSCRIBE", "other"], "INVALID"), (["HELLO", "4"], "NOPROTO"), (["AUTH", "x"], "ERR"),
    ]

    @Test("Every invalid call gets its documented error code, and the connection stays open")
    func wrongCalls() async throws {
        try await RESPTestAPI.with { api in
            for (words, expected) in Self.wrongCalls {
                guard case .error(let error) = try await api.client.send(AnyCommand(words)) else {
                    Issue.record("\(words) was accepted")
                    continue
                }
                let word = error.message.split(separator: " ").first.map(String.init)
                #expect(word == expected, "\(words): \(error.message)")
            }
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test(
        "A protocol error is reported and closes its connection without affecting others",
        arguments: [
            "*1025\r\n", "*1\r\n$65537\r\n", "*1\r\n+x\r\n", "*1\r\n$1\r\nab\r\n",
        ])
    func protocolErrors(bytes: String) async throws {
        try await RESPTestAPI.with { api in
            let replies = try await api.exchange("PING\r\n" + bytes)
            #expect(replies.hasPrefix("+PONG\r\n-ERR Protocol error"))
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("An HTTP request to this listener closes the connection silently, and nothing in its body runs")
    func httpRequestClosesConnectionSilently() async throws {
        try await RESPTestAPI.with { api in
            let request = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\nLOCK.ACQUIRE stolen 30000\r\n"
            let replies = try await api.exchange(request)
            #expect(replies == "")
            #expect(try await api.send("LOCK.INFO", "stolen") == .null)
        }
    }

    @Test("Inline commands are answered, and a client that disconnects within a command affects no other")
    func inlineAndHalf() async throws {
        try await RESPTestAPI.with { api in
            #expect(try await api.exchange("ECHO hello\r\nQUIT\r\n") == "$5\r\nhello\r\n+OK\r\n")
            _ = try await api.exchange("PING\r\n*3\r\n$12\r\nLOCK.ACQ", until: "+PONG")
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("Ten thousand pipelined commands are answered in order")
    func tenThousandPipelinedCommandsAreAnsweredInOrder() async throws {
        try await RESPTestAPI.with { api in
            var bytes = ByteBuffer()
            for number in 0..<10_000 { bytes.writeString("ECHO \(number)\r\n") }
            bytes.writeString("QUIT\r\n")
            let replies = try await RawConnection.exchange(port: api.port, bytes) { _ in false }
            let expected = (0..<10_000).map { "$\("\($0)".utf8.count)\r\n\($0)\r\n" }.joined() + "+OK\r\n"
            #expect(replies == expected)
        }
    }

    @Test("Commands start in order without waiting, and a waiting one delays only the replies after it")
    func answersInOrder() async throws {
        try await RESPTestAPI.with { api in
            let token = try await api.send("LOCK.ACQUIRE", "orders", "30000").array?.first?.text ?? ""
            let bytes = "LOCK.ACQUIRE orders 30000 WAIT 20000\r\nLOCK.RELEASE orders \(token)\r\nECHO last\r\nQUIT\r\n"
            let replies = try await api.exchange(bytes)
            #expect(replies.hasPrefix("*3\r\n"))
            #expect(replies.hasSuffix(":1\r\n$4\r\nlast\r\n+OK\r\n"))
        }
    }

    @Test("More than 1,024 pending commands pause reading until replies are sent")
    func pausedReading() async throws {
        try await RESPTestAPI.with { api in
            let token = try await api.send("LOCK.ACQUIRE", "orders", "60000").array?.first?.text ?? ""
            var bytes = "LOCK.ACQUIRE orders 30000 WAIT 50000\r\n"
            bytes += String(repeating: "PING\r\n", count: 3000) + "QUIT\r\n"
            async let replies = api.exchange(bytes)
            try await eventually(within: .seconds(10), "a call waits") {
                await api.coordinator.status.lockWaiterCount == 1
            }
            #expect(try await api.send("LOCK.RELEASE", "orders", token) == .integer(1))
            let received = try await replies
            #expect(received.split(separator: "+PONG\r\n", omittingEmptySubsequences: false).count == 3001)
        }
    }

    @Test("A client that disconnects while waiting neither keeps waiting nor gets the lock")
    func leavingWaiter() async throws {
        try await RESPTestAPI.with { api in
            let token = try await api.send("LOCK.ACQUIRE", "orders", "60000").array?.first?.text ?? ""
            _ = try await api.exchange("PING\r\nLOCK.ACQUIRE orders 60000 WAIT 50000\r\n", until: "+PONG")
            try await eventually(within: .seconds(10), "no call waits") {
                await api.coordinator.status.lockWaiterCount == 0
            }
            #expect(try await api.send("LOCK.RELEASE", "orders", token) == .integer(1))
            #expect(try await api.send("LOCK.INFO", "orders") == .null)
        }
    }

    @Test("RESP3 uses maps, and nil becomes null")
    func resp3UsesMaps() async throws {
        try await RESPTestAPI.with { api in
            let replies = try await api.exchange("HELLO 3\r\nLOCK.INFO nobody\r\nBREAKER.STATE catalog\r\nQUIT\r\n")
            #expect(replies.hasPrefix("%7\r\n$6\r\nserver\r\n"))
            #expect(replies.contains("\r\n_\r\n%17\r\n"))
            #expect(replies.contains("failure_rate\r\n,0.0\r\n"))
        }
    }

    @Test("If keys are configured, a client must authenticate, and roles apply")
    func keys() async throws {
        let keys = [
            APIKey(name: "web", secret: "web-secret", role: .use), APIKey(name: "ops", secret: "ops-secret", role: .admin),
        ]
        try await RESPTestAPI.with(keys: keys) { api in
            let anonymous = try await api.exchange("PING\r\nAUTH nope\r\nAUTH ops web-secret\r\nPING\r\nQUIT\r\n")
            #expect(anonymous.split(separator: "\r\n").map { $0.prefix(6) } == ["-NOAUT", "-WRONG", "-WRONG", "-NOAUT", "+OK"])
            // The well-behaved client has logged in as `web`.
            #expect(try await api.send("PING").text == "PONG")
            #expect(try await api.errorCode("LOCK.BREAK", "orders") == "NOPERM")
            #expect(try await api.errorCode("BREAKER.FORCE", "catalog", "OPEN") == "NOPERM")
            #expect(
                try await api.exchange("AUTH ops ops-secret\r\nBREAKER.FORCE catalog OPEN\r\nQUIT\r\n")
                    == "+OK\r\n+OK\r\n+OK\r\n")
            #expect(try await api.exchange("HELLO 3 AUTH default ops-secret\r\nQUIT\r\n").hasPrefix("%7"))
            #expect(try await api.exchange("HELLO 3\r\nQUIT\r\n").hasPrefix("-NOAUTH"))
        }
    }

    @Test("A subscriber receives every change")
    func subscriberReceivesEveryChange() async throws {
        try await RESPTestAPI.with { api in
            // A change may be missed until the subscription is active, so it is repeated.
            let changes = Task {
                while !Task.isCancelled {
                    try await api.send("BREAKER.FORCE", "catalog", "OPEN")
                    await Task.yield()
                }
            }
            let replies = try await api.exchange("SUBSCRIBE interlock:events\r\n", until: "\"state\":\"open\"")
            changes.cancel()
            #expect(replies.hasPrefix("*3\r\n$9\r\nsubscribe\r\n"))
        }
    }

    @Test("The listener stops reading from a client that never reads, and others continue")
    func stalledClientDelaysNoOthers() async throws {
        try await RESPTestAPI.with { api in
            // Other commands are answered while the first client leaves tens of thousands of replies unread.
            async let slowReader = RawConnection.exchange(
                port: api.port, ByteBuffer(string: String(repeating: "COMMAND DOCS\r\n", count: 3000) + "QUIT\r\n")
            ) { _ in true }
            for _ in 0..<50 { #expect(try await api.send("PING").text == "PONG") }
            _ = try await slowReader
        }
    }

    @Test("A shutdown answers waiting calls and closes connections, and holders keep their leases")
    func shutdownAnswersWaitingCalls() async throws {
        try await RESPTestAPI.with { api in
            _ = try await api.send("LOCK.ACQUIRE", "orders", "60000")
            async let waiting = api.exchange("LOCK.ACQUIRE orders 60000 WAIT 50000\r\n")
            try await eventually(within: .seconds(10), "a call waits") {
                await api.coordinator.status.lockWaiterCount == 1
            }
            await api.shutDown()
            #expect(try await waiting.hasPrefix("-UNAVAILABLE"))
            let redis = RedisClient(configuration: api.redis.configuration)
            try await redis.connect()
            #expect(try await redis.send(AnyCommand(["EXISTS", "interlock:lock:{orders}"])) == .integer(1))
            await redis.close()
        }
    }

    @Test("The Unix socket is private to this user, and is removed with the listener")
    func unixSocket() async throws {
        let path = "/tmp/interlock-resp-\(UInt64.random(in: 0...UInt64.max)).sock"
        try await RESPTestAPI.with(unix: path) { api in
            let client = RedisClient(configuration: RedisConfiguration(address: .unixSocket(path: path)))
            try await client.connect()
            #expect(try await client.send(AnyCommand(["PING"])).text == "PONG")
            await client.close()
            #expect(FileMode.of(path) == 0o600)
        }
        #expect(FileMode.of(path) == nil)
    }
}

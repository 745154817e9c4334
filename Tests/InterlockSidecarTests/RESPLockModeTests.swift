import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import RedisClient
import Testing

@Suite("RESP API: lock modes and linked leases", .timeLimit(.minutes(2)))
struct RESPLockModeTests {
    // MARK: LINKED

    @Test("A linked lease outlives its ttl while its client is connected")
    func linkedLeaseOutlivesTTL() async throws {
        try await RESPTestAPI.with { api in
            let holder = try await RESPTestAPI.anotherClient(of: api)
            let grant = try await holder.send(AnyCommand(["LOCK.ACQUIRE", "orders", "600", "LINKED"])).array
            #expect(grant?.count == 3)
            let start = ContinuousClock.now
            try await eventually("three times the ttl has passed") {
                let refusal = try await api.send("LOCK.ACQUIRE", "orders", "600")
                #expect(refusal == .null)
                return ContinuousClock.now - start >= .milliseconds(3 * 600)
            }
            await holder.close()
            try await Self.waitUntilFree("orders", at: api)
        }
    }

    @Test("Linked leases are released however their client disconnects, and other leases stay", arguments: ["", "QUIT\r\n"])
    func everyDisconnectReleasesLinkedLeases(quit: String) async throws {
        try await RESPTestAPI.with { api in
            let commands =
                "LOCK.ACQUIRE plain 600000\r\nLOCK.ACQUIRE orders 600000 LINKED\r\n"
                + "LOCK.ACQUIRE a 600000 LINKED ALSO 1 b\r\nECHO taken\r\n"
            let replies = try await api.exchange(commands + quit, until: quit.isEmpty ? "taken\r\n" : nil)
            #expect(quit.isEmpty || replies.hasSuffix("+OK\r\n"))
            for name in ["orders", "a", "b"] { try await Self.waitUntilFree(name, at: api) }
            let holders = try await Self.information("holders", of: "plain", at: api)
            #expect(holders?.integer == 1)
        }
    }

    @Test("A shutdown does not release a linked lease, but notifies its client and lets it expire")
    func sidecarShutsDown() async throws {
        try await RESPTestAPI.with { api in
            async let replies = api.exchange("HELLO 3\r\nLOCK.ACQUIRE orders 5000 OWNER me LINKED\r\n")
            try await Self.waitUntilHeld("orders", at: api)
            await api.shutDown()
            let pushed = try await replies
            #expect(pushed.hasSuffix(Self.push("orders", "shutdown")))
            let isStillHeld = try await Self.redis(of: api, "EXISTS", "interlock:lock:{orders}")
            #expect(isStillHeld == .integer(1))
            try await eventually("the lease has expired") {
                try await Self.redis(of: api, "EXISTS", "interlock:lock:{orders}") == .integer(0)
            }
        }
    }

    @Test("A linked lease survives a connection that the sidecar closes, since its client may still work")
    func sidecarCloses() async throws {
        try await RESPTestAPI.with { api in
            let replies = try await api.exchange("LOCK.ACQUIRE orders 3000 OWNER me LINKED\r\n*1\r\n+x\r\n")
            #expect(replies.hasPrefix("*3\r\n$2\r\nme\r\n"))
            #expect(replies.contains("-ERR Protocol error"))
            let holders = try await Self.information("holders", of: "orders", at: api)
            #expect(holders?.integer == 1)
            try await Self.waitUntilFree("orders", at: api)
        }
    }

    // MARK: Notifications

    @Test("RESP3 notifies a client on its connection when an operator breaks its lock", arguments: ["", " LINKED", " SHARED"])
    func brokenLockNotifiesRESP3Client(options: String) async throws {
        try await RESPTestAPI.with { api in
            try await Self.waitUntilSubscribed(api)
            async let replies = Self.waitUntilPush(
                port: api.port, "HELLO 3\r\nCLIENT LOSSES ON\r\nLOCK.ACQUIRE orders 600000 OWNER me\(options)\r\n")
            try await api.redis.waitUntilTracking(1)
            let isBroken = try await api.send("LOCK.BREAK", "orders")
            #expect(isBroken == .integer(1))
            let pushed = try await replies
            #expect(pushed.hasSuffix(Self.push("orders", "broken")))
        }
    }

    @Test("RESP3 notifies a client which of its locks was deleted by hand", arguments: ["", " LINKED"])
    func deletedLockNotifiesRESP3Client(options: String) async throws {
        try await RESPTestAPI.with { api in
            let commands = "HELLO 3\r\nCLIENT LOSSES ON\r\nLOCK.ACQUIRE other 600000 OWNER me\(options) ALSO 1 orders\r\n"
            async let replies = Self.waitUntilPush(port: api.port, commands)
            try await Self.waitUntilHeld("orders", at: api)
            _ = try await Self.redis(of: api, "DEL", "interlock:lock:{orders}")
            let pushed = try await replies
            #expect(pushed.hasSuffix(Self.push("orders", "deleted")))
        }
    }

    @Test("RESP3 notifies a client when its lease expires")
    func expired() async throws {
        try await RESPTestAPI.with { api in
            let pushed = try await Self.waitUntilPush(
                port: api.port, "HELLO 3\r\nCLIENT LOSSES ON\r\nLOCK.ACQUIRE orders 500 OWNER me\r\n")
            #expect(pushed.hasSuffix(Self.push("orders", "expired")))
        }
    }

    @Test(
        "RESP3 notifies a client only of the losses it requested, and LINKED requests them",
        arguments: ["", " SHARED", " ALSO 1 other"])
    func notifiedOnRequest(options: String) async throws {
        try await RESPTestAPI.with { api in
            let opening = "HELLO 3\r\nLOCK.ACQUIRE orders 600000 OWNER me\(options)\r\n"
            try await Self.waitUntilSubscribed(api)
            let transcript = try await Self.exchangeTurns(port: api.port, opening) { received, writer in
                if received.contains("\nme\r\n") || received.contains("$2\r\nme\r\n"), !received.contains("+PONG") {
                    _ = try await api.send("LOCK.BREAK", "orders")
                    // A push for the first break would have arrived by the second.
                    _ = try await api.send("LOCK.BREAK", "orders")
                    try await writer.write(ByteBuffer(string: "PING\r\n"))
                }
                return received.contains("+PONG")
            }
            #expect(!transcript.contains("lock-lost"))
        }
    }

    @Test("A RESP2 client that loses a linked lease is disconnected")
    func closedWhenLost() async throws {
        try await RESPTestAPI.with { api in
            try await Self.waitUntilSubscribed(api)
            async let closed = api.exchange("LOCK.ACQUIRE orders 600000 OWNER me LINKED\r\n")
            try await Self.waitUntilHeld("orders", at: api)
            _ = try await api.send("LOCK.BREAK", "orders")
            // The call returns when the listener closes the connection.
            let replies = try await closed
            #expect(replies.hasPrefix("*3\r\n$2\r\nme\r\n"))
        }
    }

    @Test("A client requests loss notifications over RESP3")
    func clientRequestsLossNotificationsOverRESP3() async throws {
        try await RESPTestAPI.with { api in
            let replies = try await api.exchange(
                "CLIENT LOSSES ON\r\nHELLO 3\r\nCLIENT LOSSES ON\r\nCLIENT LOSSES OFF\r\nCLIENT LOSSES\r\nQUIT\r\n")
            #expect(replies.hasPrefix("-INVALID losses are reported only over RESP3"))
            #expect(replies.contains("+OK\r\n+OK\r\n-ERR unknown CLIENT subcommand"))
        }
    }

    @Test("RESP3 sends a client nothing about a lease that it released", arguments: ["", " LINKED"])
    func notNotified(options: String) async throws {
        try await RESPTestAPI.with { api in
            let opening = "HELLO 3\r\nCLIENT LOSSES ON\r\nLOCK.ACQUIRE orders 500 OWNER me\(options)\r\n"
            let transcript = try await Self.exchangeTurns(port: api.port, opening) { received, writer in
                if received.contains("over\r\n") { return true }
                if received.contains("released\r\n") {
                    try await Self.waitUntilPassed(.seconds(1))
                    try await writer.write(ByteBuffer(string: "ECHO over\r\n"))
                } else if received.contains("$2\r\nme\r\n") {
                    try await writer.write(ByteBuffer(string: "LOCK.RELEASE orders me\r\nECHO released\r\n"))
                }
                return false
            }
            #expect(transcript.contains("released\r\n"))
            #expect(!transcript.contains("lock-lost"))
        }
    }

    @Test("RESP2 sends a client only replies", arguments: ["", " SHARED"])
    func resp2SendsClientOnlyReplies(options: String) async throws {
        try await RESPTestAPI.with { api in
            let opening = "LOCK.ACQUIRE orders 500 OWNER me\(options)\r\n"
            let transcript = try await Self.exchangeTurns(port: api.port, opening) { received, writer in
                if received.contains("over\r\n") { return true }
                _ = try await api.send("LOCK.BREAK", "orders")
                try await Self.waitUntilPassed(.seconds(1))
                try await writer.write(ByteBuffer(string: "LOCK.RENEW orders me 500\r\nECHO over\r\n"))
                return false
            }
            #expect(transcript.hasPrefix("*3\r\n$2\r\nme\r\n"))
            // The reply to the renewal reports the loss.
            #expect(transcript.contains("$-1\r\n"))
            #expect(!transcript.contains("lock-lost"))
        }
    }

    // MARK: SHARED, PERMITS, ALSO

    @Test("Several readers share a lock, and a writer gets nil until the last reader releases it")
    func severalReadersShareLock() async throws {
        try await RESPTestAPI.with { api in
            var tokens: [String] = []
            var fences: [Int64] = []
            for _ in 0..<2 {
                let grant = try await api.send("LOCK.ACQUIRE", "orders", "30000", "SHARED").array ?? []
                #expect(grant.count == 3)
                tokens.append(grant.first?.text ?? "")
                fences.append(grant.dropFirst().first?.integer ?? 0)
            }
            #expect(Set(tokens).count == 2)
            #expect(fences[0] < fences[1])
            let label = try await Self.information("label", of: "orders", at: api)
            #expect(label?.text == "shared")
            let holders = try await Self.information("holders", of: "orders", at: api)
            #expect(holders?.integer == 2)
            for token in tokens {
                let refusal = try await api.send("LOCK.ACQUIRE", "orders", "30000")
                #expect(refusal == .null)
                let valid = try await api.send("LOCK.RENEW", "orders", token, "60000").integer ?? 0
                #expect(valid > 50_000)
                let reply = try await api.send("LOCK.RELEASE", "orders", token)
                #expect(reply == .integer(1))
            }
            let grant = try await api.send("LOCK.ACQUIRE", "orders", "30000").array
            #expect(grant?.count == 3)
        }
    }

    @Test("A semaphore has as many holders as slots, and excludes other modes")
    func semaphoreHasAsManyHoldersAsSlots() async throws {
        try await RESPTestAPI.with { api in
            for _ in 0..<2 {
                let grant = try await api.send("LOCK.ACQUIRE", "orders", "30000", "PERMITS", "2").array
                #expect(grant?.count == 3)
            }
            let refusal = try await api.send("LOCK.ACQUIRE", "orders", "30000", "PERMITS", "2")
            #expect(refusal == .null)
            let label = try await Self.information("label", of: "orders", at: api)
            #expect(label?.text == "permits-2")
            let holders = try await Self.information("holders", of: "orders", at: api)
            #expect(holders?.integer == 2)
            let exclusive = try await api.errorCode("LOCK.ACQUIRE", "orders", "30000")
            #expect(exclusive == "INVALID")
            let reader = try await api.errorCode("LOCK.ACQUIRE", "orders", "30000", "SHARED")
            #expect(reader == "INVALID")
        }
    }

    @Test("Several locks are acquired together, with name, token, fence and validity in order")
    func severalLocksAreAcquiredTogether() async throws {
        try await RESPTestAPI.with { api in
            let leases = try await api.send("LOCK.ACQUIRE", "b", "30000", "ALSO", "2", "c", "a").array ?? []
            #expect(leases.map { $0.array?.first?.text } == ["b", "c", "a"])
            for lease in leases {
                let parts = try #require(lease.array)
                #expect(parts.count == 4)
                let (name, token) = (parts[0].text ?? "", parts[1].text ?? "")
                #expect(token.hasPrefix("test/"))
                #expect(parts[2].integer ?? 0 > 0)
                #expect((1...30_000).contains(parts[3].integer ?? 0))
                let reply = try await api.send("LOCK.RELEASE", name, token)
                #expect(reply == .integer(1))
            }
        }
    }

    @Test("If one of several locks is held, the reply is nil and no lock is acquired")
    func allOrNone() async throws {
        try await RESPTestAPI.with { api in
            _ = try await api.send("LOCK.ACQUIRE", "b", "30000")
            let refusal = try await api.send("LOCK.ACQUIRE", "c", "30000", "ALSO", "2", "b", "a")
            #expect(refusal == .null)
            for name in ["a", "c"] { try await Self.waitUntilFree(name, at: api) }
        }
    }

    @Test("LOCK.INFO is a map with a map for each holder")
    func information() async throws {
        try await RESPTestAPI.with { api in
            let commands = "HELLO 3\r\nLOCK.ACQUIRE orders 30000 PERMITS 3\r\nLOCK.INFO orders\r\nQUIT\r\n"
            let replies = try await api.exchange(commands)
            #expect(replies.contains("%9\r\n$5\r\nlabel\r\n$9\r\npermits-3\r\n$5\r\nfence\r\n:"))
            #expect(replies.contains("$7\r\nholders\r\n:1\r\n$7\r\nwaiters\r\n:0\r\n$4\r\nmode\r\n$7\r\npermits\r\n"))
            #expect(replies.contains("$7\r\npermits\r\n:3\r\n$6\r\nleases\r\n*1\r\n%3\r\n$5\r\nlabel\r\n"))
            #expect(replies.contains("$5\r\nqueue\r\n*0\r\n"))
        }
    }

    @Test("LOCK.INFO lists the sidecars with waiters, and LOCK.GRANTS the outcome of recent grants")
    func queueAndGrants() async throws {
        try await RESPTestAPI.with { api in
            let token = try #require(try await api.send("LOCK.ACQUIRE", "orders", "30000", "LABEL", "web-1").array?[0].text)
            let waiting = Task {
                try await api.coordinator.acquireLock(
                    LockRequest(
                        name: try ResourceName("orders"), ttlMilliseconds: 30_000, waitMilliseconds: 60_000, label: "b")
                )
            }
            try await eventually("the call waits") { await api.coordinator.status.lockWaiterCount == 1 }
            let queue = try #require(try await api.send("LOCK.INFO", "orders").array?.last?.array)
            #expect(
                queue.map { $0.array?.map { $0.text ?? "\($0.integer ?? -1)" } } == [
                    ["sidecar", api.coordinator.id, "waiters", "1"]
                ])
            _ = try await api.send("LOCK.RELEASE", "orders", token)
            let grant = try await waiting.value
            let grants = try #require(try await api.send("LOCK.GRANTS", "orders").array)
            let fields = grants.map { $0.array?.map { $0.text ?? $0.integer.map { "\($0)" } ?? "nil" } ?? [] }
            #expect(
                fields.map { $0.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element) }
                    == Array(
                        repeating: ["name", "label", "mode", "permits", "fence", "granted_ms", "waited_ms", "ended_ms", "end"],
                        count: 2))
            #expect(fields[0][1...].starts(with: ["orders", "label", "b", "mode", "exclusive", "permits", "nil", "fence"]))
            #expect(fields[0][9] == "\(grant?.fence ?? 0)")
            #expect(fields[0].suffix(3) == ["nil", "end", "nil"])
            #expect(fields[1].suffix(2) == ["end", "released"])
            #expect(try await api.send("LOCK.GRANTS", "nobody").array?.isEmpty == true)
        }
    }

    @Test("LOCK.INFO shows each holder's label, fence, time and mode")
    func lockInfoShowsEachHolder() async throws {
        try await RESPTestAPI.with { api in
            for owner in ["a", "b"] {
                _ = try await api.send("LOCK.ACQUIRE", "places", owner == "a" ? "60000" : "30000", "PERMITS", "3", "LABEL", owner)
            }
            let information = try #require(try await api.coordinator.inspectLock(try ResourceName("places")))
            #expect(information.mode == .permits(3))
            #expect(information.holders == 2)
            // Leases are sorted by the end of their lifetime.
            #expect(information.leases.map(\.label) == ["b", "a"])
            let fences = information.leases.compactMap(\.fence)
            #expect(fences.count == 2 && fences[0] > fences[1])
            #expect(fences.max() == information.fence)
            #expect(information.leases.allSatisfy { $0.remaining ?? .zero > .seconds(20) })
            _ = try await api.send("LOCK.ACQUIRE", "read", "30000", "SHARED")
            #expect(try await Self.information("mode", of: "read", at: api)?.text == "shared")
            #expect(try await Self.information("permits", of: "read", at: api) == .null)
            _ = try await api.send("LOCK.ACQUIRE", "alone", "30000", "LABEL", "web-1")
            let exclusive = try #require(try await api.coordinator.inspectLock(try ResourceName("alone")))
            #expect(exclusive.mode == .exclusive)
            #expect(exclusive.leases.map(\.label) == ["web-1"])
            #expect(exclusive.leases.map(\.fence) == [exclusive.fence])
        }
    }
}

extension RESPLockModeTests {
    /// Returns the push that reports a lost lease to the owner `me`.
    private static func push(_ name: String, _ reason: String) -> String {
        ">4\r\n" + ["lock-lost", name, "me", reason].map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
    }

    /// Sends `bytes` on its own connection and reads to the end of the first push about a lost lease.
    private static func waitUntilPush(port: Int, _ bytes: String) async throws -> String {
        try await RawConnection.exchange(port: port, ByteBuffer(string: bytes)) { received in
            guard let start = received.firstRange(of: "lock-lost\r\n") else { return false }
            // The name, the token and the reason each follow their length.
            return received[start.upperBound...].filter { $0 == "\r\n" }.count >= 6
        }
    }

    /// Exchanges bytes with the listener until it closes the connection or `turn` returns `true`.
    /// - Parameter turn: a closure that receives all text so far and may send more; `true` ends the exchange.
    private static func exchangeTurns(
        port: Int, _ opening: String,
        _ turn: @Sendable (_ received: String, _ writer: NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Bool
    ) async throws -> String {
        let channel = try await RawConnection.connect(to: port)
        return try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: opening))
            var received = ""
            for try await part in inbound {
                received += String(buffer: part)
                if try await turn(received, outbound) { break }
            }
            return received
        }
    }

    /// Returns the answer of the listener's Redis to a command.
    private static func redis(of api: RESPTestAPI, _ words: String...) async throws -> RedisReply {
        let client = RedisClient(configuration: api.redis.configuration)
        try await client.connect()
        let reply = try await client.send(AnyCommand(words))
        await client.close()
        return reply
    }

    /// Waits until the coordinator receives the fleet's events, which may be slightly after it is ready.
    private static func waitUntilSubscribed(_ api: RESPTestAPI) async throws {
        try await eventually("the coordinator has subscribed") {
            try await redis(of: api, "PUBSUB", "NUMSUB", api.coordinator.keys.events).array?.last?.integer == 1
        }
    }

    /// Returns a field of the `LOCK.INFO` reply; `nil` if the lock has no such field.
    private static func information(_ field: String, of lock: String, at api: RESPTestAPI) async throws -> RedisReply? {
        guard let parts = try await api.send("LOCK.INFO", lock).array,
            let index = parts.firstIndex(where: { $0.text == field }), index + 1 < parts.count
        else { return nil }
        return parts[index + 1]
    }

    private static func waitUntilHeld(_ lock: String, at api: RESPTestAPI) async throws {
        try await eventually("\(lock) is held") { try await information("holders", of: lock, at: api)?.integer == 1 }
    }

    private static func waitUntilFree(_ lock: String, at api: RESPTestAPI) async throws {
        try await eventually("\(lock) is free") { try await api.send("LOCK.INFO", lock) == .null }
    }

    private static func waitUntilPassed(_ duration: Duration) async throws {
        let start = ContinuousClock.now
        try await eventually("\(duration) have passed") { ContinuousClock.now - start >= duration }
    }
}

import SidecarListeners
import RedisClient
import Testing

@Suite("RESP API: repeated commands", .timeLimit(.minutes(2)))
struct RESPRetryTests {
    @Test(
        "An owner may repeat its request for a lock on the same connection",
        arguments: ["", " LINKED", " SHARED", " PERMITS 2", " WAIT 100", " SHARED LINKED"], ["", "HELLO 3\r\n"])
    func ownerAsksAgain(options: String, greeting: String) async throws {
        try await RESPTestAPI.with { api in
            let acquire = "LOCK.ACQUIRE orders 30000 OWNER me\(options)\r\n"
            let replies = try await api.exchange(greeting + acquire + acquire + acquire + "ECHO done\r\n", until: "done\r\n")
            // Each reply contains the token, not nil.
            #expect(replies.split(separator: "$2\r\nme\r\n", omittingEmptySubsequences: false).count == 4, "\(replies)")
            #expect(replies.contains("$4\r\ndone\r\n"))
        }
    }

    /// One call of each command with a single reply, as a client may resend it after losing the answer.
    private static let calls: [String] = [
        "PING", "ECHO a", "HELLO 3", "HELLO 2", "CLIENT ID", "CLIENT SETNAME a", "COMMAND COUNT", "INFO", "SELECT 0", "RESET",
        "LOCK.ACQUIRE plain 30000", "LOCK.ACQUIRE mine 30000 OWNER me", "LOCK.ACQUIRE mine 30000 OWNER me WAIT 10",
        "LOCK.ACQUIRE linked 30000 OWNER me LINKED", "LOCK.ACQUIRE shared 30000 OWNER me SHARED",
        "LOCK.ACQUIRE places 30000 OWNER me PERMITS 3", "LOCK.ACQUIRE one 30000 OWNER me ALSO 1 two",
        "LOCK.ACQUIRE three 30000 OWNER me LINKED ALSO 1 four", "LOCK.RENEW mine me 30000", "LOCK.INFO mine", "LOCK.LIST",
        "LOCK.RENEW linked me 30000", "LOCK.RENEW shared me 30000", "LOCK.RELEASE mine me", "LOCK.RELEASE linked me",
        "LOCK.RELEASE shared me", "LOCK.RELEASE places me", "LOCK.BREAK plain", "LOCK.BREAK three", "LIMIT.TAKE catalog",
        "LIMIT.TAKE catalog COST 2 WAIT 10", "LIMIT.PEEK catalog", "LIMIT.LIST catalog", "CL.THROTTLE mail 1 1 1",
        "PERMIT.ACQUIRE catalog",
        "PERMIT.ACQUIRE catalog WAIT 10", "PERMIT.REPORT catalog 00000000000000000000000000000000 OK",
        "BREAKER.STATE catalog", "BREAKER.LIST", "BREAKER.FORCE catalog OPEN FOR 1000", "BREAKER.FORCE catalog AUTO",
        "FLEET.LIST", "LOCK.GRANTS", "LOCK.GRANTS mine", "LIVE.VIEW overview", "LIVE.VIEW lock NAME mine",
        "LIVE.VIEW service NAME catalog",
    ]

    @Test("Every command may be sent twice on one connection, alone and in a pipeline", arguments: [2, 3])
    func everyCommandTwice(version: Int) async throws {
        try await RESPTestAPI.with { api in
            for call in Self.calls {
                let replies = try await api.exchange(
                    "HELLO \(version)\r\n\(call)\r\n\(call)\r\nECHO done\r\n", until: "$4\r\ndone\r\n")
                // Over RESP3, pushes about leases may arrive at any time.
                #expect(replies.contains("$4\r\ndone\r\n"), "\(call): \(replies)")
            }
            // Breaking a linked lease closes the connection of a RESP2 client.
            let all = Self.calls.filter {
                !$0.hasPrefix("HELLO") && $0 != "RESET" && (version == 3 || $0 != "LOCK.BREAK three")
            }
            let twice = all.map { "\($0)\r\n\($0)\r\n" }.joined()
            let replies = try await api.exchange(
                "HELLO \(version)\r\n\(twice)ECHO done\r\n", until: "$4\r\ndone\r\n")
            #expect(replies.contains("$4\r\ndone\r\n"))
            #expect(try await api.send("PING").text == "PONG")
        }
    }

    @Test("The commands sent twice include every command with one reply")
    func commandsSentTwiceIncludeEveryCommandWithOneReply() {
        let sent = Set(Self.calls.compactMap { $0.split(separator: " ").first.map(String.init) })
        let others: Set = ["AUTH", "QUIT", "SUBSCRIBE", "UNSUBSCRIBE"]
        #expect(Set(RESPCommandTable().all.map(\.name)).subtracting(others) == sent)
    }
}

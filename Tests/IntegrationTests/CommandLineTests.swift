import FoundationEssentials
import Glibc
import InterlockProcesses
import InterlockTesting
import Subprocess
import Testing

/// The commands as users and scripts run them: the built program with its own sidecar.
@Suite("Command line", .serialized, .timeLimit(.minutes(2)))
struct CommandLineTests {
    private static let services = """
        services:
          catalog:
            limits: [ { limit: 3, per: 1h } ]
            breaker: {}
        """

    // MARK: Limits

    @Test("A limit is taken until it is used up, then refused with 1 and a time to retry")
    func limitIsTakenUntilUsedUp() async throws {
        struct Reading: Decodable {
            var limited: Bool
            var remaining: Int
            var retryAfterMs: Int64
        }
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            let decision = try await sidecar.interlock("limit", "take", "catalog", "--cost", "2", "--json")
            #expect(decision.status == .exited(0))
            #expect(try decision.decoded(Reading.self).remaining == 1)

            let refusal = try await sidecar.interlock("limit", "take", "catalog", "--cost", "2", "--json")
            #expect(refusal.status == .exited(1))
            let reading = try refusal.decoded(Reading.self)
            #expect(reading.limited)
            #expect(reading.retryAfterMs > 0)
            #expect(refusal.errors.contains("the limit 1h of catalog is used up"))

            let limitReading = try await sidecar.interlock("limit", "show", "catalog", "--json")
            #expect(limitReading.status == .exited(0))
            #expect(try limitReading.decoded(Reading.self).remaining == 1)
        }
    }

    @Test("A cost above the limit is rejected immediately, even with a wait")
    func tooExpensive() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            for wait in ["0ms", "20s"] {
                let refusal = try await sidecar.interlock("limit", "take", "catalog", "--cost", "50", "--wait", wait)
                #expect(refusal.status == .exited(65))
                #expect(refusal.output.isEmpty)
                #expect(
                    refusal.errors.contains(
                        "a call of cost 50 can never be granted: the limit 1h of the service \"catalog\" is 3"))
                #expect(!refusal.errors.contains("--wait"))
            }
        }
    }

    @Test("An older sidecar's error for a cost above the limit is understood")
    func tooExpensiveForOlderSidecar() async throws {
        let reply = "*5\r\n:1\r\n:10\r\n:10\r\n:-1\r\n:0\r\n"
        try await MisbehavingRedis.withServer(script: { _ in .text(reply) }) { peer in
            let refusal = try await InterlockProcess.outcome(
                ["limit", "take", "catalog", "--cost", "50", "--sidecar", "127.0.0.1:\(peer.port)"])
            #expect(refusal.status == .exited(65))
            #expect(refusal.errors.contains("a call of cost 50 can never be granted: the limit is 10"))
        }
    }

    @Test("An older sidecar, which neither names nor lists limits, still reports a limit")
    func limitsOfOlderSidecar() async throws {
        let script: @Sendable (ReceivedCommand) -> ScriptedReply = { command in
            .text(
                command.text.contains("NAMED")
                    ? "-INVALID unknown option \"NAMED\"; expected one of COST, SUBJECT, WAIT\r\n"
                    : "*5\r\n:0\r\n:10\r\n:7\r\n:-1\r\n:900\r\n")
        }
        try await MisbehavingRedis.withServer(script: script) { peer in
            for subcommand in ["take", "show"] {
                let outcome = try await InterlockProcess.outcome(
                    ["limit", subcommand, "catalog", "--sidecar", "127.0.0.1:\(peer.port)"])
                #expect(outcome.status == .exited(0))
                #expect(outcome.output.contains("remaining"))
                #expect(outcome.output.contains("7"))
            }
            #expect(!peer.commands.contains { $0.text.first == "LIMIT.LIST" })
        }
    }

    @Test("The error for an unknown service names it")
    func unknownService() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let refusal = try await sidecar.interlock("limit", "take", "absent")
            #expect(refusal.status == .exited(65))
            #expect(refusal.errors.contains("absent"))
        }
    }

    // MARK: Breakers

    @Test("A breaker is forced, shown and listed")
    func forcedBreakerIsShownAndListed() async throws {
        struct Reading: Decodable {
            var service: String
            var state: String
            var forced: String?
        }
        struct Listing: Decodable {
            var services: [Reading]
        }
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            let forced = try await sidecar.interlock("breaker", "force", "catalog", "open")
            #expect(forced.status == .exited(0))
            let reading = try await sidecar.interlock("breaker", "show", "catalog", "--json").decoded(Reading.self)
            #expect(reading.state == "open")
            #expect(reading.forced == "open")

            let freed = try await sidecar.interlock("breaker", "force", "catalog", "auto")
            #expect(freed.status == .exited(0))
            let listed = try await sidecar.interlock("breaker", "list", "--json").decoded(Listing.self)
            #expect(listed.services.map(\.service) == ["catalog"])
            #expect(listed.services.first?.forced == nil)

            let table = try await sidecar.interlock("breaker", "list")
            #expect(table.output.hasPrefix("SERVICE "))
            // The cause belongs to an earlier change; a closed breaker shows none.
            let row = table.output.split(separator: "\n").last?.split(separator: " ") ?? []
            #expect(row.dropFirst(3).prefix(2) == ["-", "-"], "\(row)")
            let nonsense = try await sidecar.interlock("breaker", "force", "catalog", "ajar")
            #expect(nonsense.status == .exited(64))
        }
    }

    // MARK: Status

    @Test("`status` shows the sidecar, its Redis, the fleet, the locks and the services")
    func statusShowsSidecarAndFleet() async throws {
        struct Status: Decodable {
            struct Redis: Decodable { var up: Bool }
            struct Locks: Decodable { var heldInFleet: Int }
            var redis: Redis
            var locks: Locks
            var fleet: [String]
            var warnings: [String]
        }
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            let outcome = try await sidecar.interlock("status", "--json")
            #expect(outcome.status == .exited(0))
            let status = try outcome.decoded(Status.self)
            #expect(status.redis.up)
            #expect(status.locks.heldInFleet == 1)
            #expect(status.fleet.count == 1)
            #expect(status.warnings.isEmpty)

            let table = try await sidecar.interlock("status", "--sidecar", sidecar.unixAddress)
            #expect(table.status == .exited(0))
            for title in ["Sidecar", "Redis", "Fleet", "Locks", "Services", "catalog"] {
                #expect(table.output.contains(title))
            }
        }
    }

    @Test("`status` warns about a Redis server that may evict locks")
    func statusWarnsAboutRedisServerThatMayEvictLocks() async throws {
        let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]
        try await RedisServer.withServer(arguments: arguments, listener: .none) { server in
            try await SidecarProcess.withSidecar(arguments: ["--redis", "unix://\(server.socketPath)"]) { sidecar in
                try await eventually("status warns") {
                    try await sidecar.interlock("status").errors.contains("allkeys-lru")
                }
            }
        }
    }

    @Test("`status` warns while Redis rejects commands")
    func statusWarnsWhileRedisRejectsCommands() async throws {
        try await RedisServer.withServer(arguments: ["--maxmemory", "1"], listener: .none) { server in
            try await SidecarProcess.withSidecar(arguments: ["--redis", "unix://\(server.socketPath)"]) { sidecar in
                try await eventually("status warns") {
                    _ = try await sidecar.interlock("lock", "acquire", "orders")
                    return try await sidecar.interlock("status").errors.contains("warning: Redis: OOM")
                }
            }
        }
    }

    @Test("Without Redis, status and locks exit with 69, and status --live with 0")
    func redisUnreachable() async throws {
        try await RedisServer.withServer(listener: .none) { server in
            try await SidecarProcess.withSidecar(arguments: ["--redis", "unix://\(server.socketPath)"]) { sidecar in
                await server.kill()
                try await eventually("status reports that Redis is unreachable") {
                    try await sidecar.interlock("status").status == .exited(69)
                }
                let refusal = try await sidecar.interlock("lock", "acquire", "orders")
                #expect(refusal.status == .exited(69))
                #expect(refusal.errors.contains("Redis"))
                let live = try await sidecar.interlock("status", "--live")
                #expect(live.status == .exited(0))
                #expect(live.output.contains("down"))
            }
        }
    }

    // MARK: No answer

    @Test(
        "Without a sidecar every command exits with 69 and says how to start one",
        arguments: [
            ["status"], ["status", "--live"], ["lock", "acquire", "a"], ["lock", "list"], ["limit", "show", "a"],
            ["breaker", "list"], ["events"],
        ])
    func noSidecar(arguments: [String]) async throws {
        // Port 1 has no listener.
        let outcome = try await InterlockProcess.outcome(arguments + ["--sidecar", "127.0.0.1:1"])
        #expect(outcome.status == .exited(69))
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.contains("no sidecar answers at 127.0.0.1:1"))
        #expect(outcome.errors.contains("interlock serve"))
    }

    @Test("An error says what answers at the address, or that nothing does")
    func wrongAddress() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            func errors(_ address: String, apiKey: String? = nil) async throws -> String {
                let outcome = try await sidecar.interlock("lock", "show", "a", "--sidecar", address, apiKey: apiKey)
                #expect(outcome.status == .exited(69))
                return outcome.errors
            }
            for key in [nil, "some-key"] {
                let http = try await errors("127.0.0.1:\(sidecar.httpPort)", apiKey: key)
                #expect(http.hasPrefix("interlock: \(sidecar.httpPort) is the HTTP port; use the RESP port"), "\(http)")
            }
            let plain = try await errors("rediss://\(sidecar.address)")
            #expect(plain.contains("the other side does not speak TLS"), "\(plain)")
            let unknown = try await errors("nohost.invalid:7379")
            #expect(unknown.contains("cannot resolve nohost.invalid"), "\(unknown)")
            let closed = try await errors("127.0.0.1:1")
            #expect(closed.contains("no sidecar answers at 127.0.0.1:1: start one"), "\(closed)")
            #expect(closed.contains("refuses connections"), "\(closed)")
            let noFile = try await errors("unix:/nowhere")
            #expect(noFile.contains("no sidecar answers at unix:/nowhere: start one"), "\(noFile)")
            #expect(noFile.contains("no such file or directory"), "\(noFile)")
            for text in [plain, unknown, closed, noFile] {
                #expect(!text.contains("Error") && !text.contains("errno") && !text.contains("sslError"), "\(text)")
            }
        }
    }

    @Test("A peer that accepts a command and never answers is abandoned with 69")
    func silence() async throws {
        try await MisbehavingRedis.withServer(script: { _ in .silence }) { peer in
            let outcome = try await InterlockProcess.outcome(["lock", "show", "a", "--sidecar", "127.0.0.1:\(peer.port)"])
            #expect(outcome.status == .exited(69))
        }
    }

    @Test("A peer's text cannot control the terminal")
    func controlCharacters() async throws {
        try await MisbehavingRedis.withServer(script: { _ in .text("-INVALID \u{1B}[31mred\u{9B}2J\r\n") }) { peer in
            let outcome = try await InterlockProcess.outcome(["lock", "show", "a", "--sidecar", "127.0.0.1:\(peer.port)"])
            #expect(outcome.status == .exited(65))
            #expect(outcome.errors.contains("red"))
            #expect(!outcome.errors.unicodeScalars.contains { $0 == "\u{1B}" || $0 == "\u{9B}" })
        }
    }

    // MARK: Keys

    @Test("A missing key or role is named")
    func missingKeyOrRoleIsNamed() async throws {
        let configuration = """
            auth:
              keys:
                - { name: ops, key: "key-of-the-operators", role: admin }
                - { name: web, key: "key-of-the-web-shop", role: use }
            """
        try await SidecarProcess.withSidecar(configuration: configuration) { sidecar in
            let none = try await sidecar.interlock("lock", "acquire", "orders")
            #expect(none.status == .exited(77))
            #expect(none.errors.contains("INTERLOCK_API_KEY"))

            let wrong = try await sidecar.interlock("lock", "acquire", "orders", apiKey: "key-of-nobody")
            #expect(wrong.status == .exited(77))
            #expect(!wrong.errors.contains("key-of-nobody"))

            let right = try await sidecar.interlock("lock", "acquire", "orders", apiKey: "key-of-the-web-shop")
            #expect(right.status == .exited(0))
            let insufficient = try await sidecar.interlock("lock", "break", "orders", apiKey: "key-of-the-web-shop")
            #expect(insufficient.status == .exited(77))
            #expect(insufficient.errors.contains("admin"))
            // The message is the only line: the client logs nothing.
            #expect(insufficient.errors.hasPrefix("interlock: lock break orders: "))
            #expect(insufficient.errors.count { $0 == "\n" } == 1)
            let admin = try await sidecar.interlock("lock", "break", "orders", apiKey: "key-of-the-operators")
            #expect(admin.status == .exited(0))
        }
    }

    // MARK: Events

    @Test("Events are followed until Ctrl-C, which is not an error", arguments: [false, true])
    func eventsAreFollowedUntilInterrupt(asJSON: Bool) async throws {
        struct Event: Decodable {
            var type: String
            var service: String
        }
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            let follower = try await InterlockProcess.start(
                asJSON ? ["events", "--json"] : ["events"], environment: sidecar.environment())
            try await eventually("the events are followed") { follower.errors.contains("following") }
            _ = try await sidecar.interlock("breaker", "force", "catalog", "open")
            // Each line is flushed at its end, so it arrives complete.
            try await eventually("the change is printed") { follower.output.contains("catalog") }
            follower.send(signal: SIGINT)
            let status = try await follower.end(within: .seconds(10))
            #expect(status == .exited(0))
            let line = try #require(follower.output.split(separator: "\n").first { $0.contains("catalog") })
            if asJSON {
                let event = try JSONDecoder().decode(Event.self, from: Data(line.utf8))
                #expect(event.type == "breaker")
                #expect(event.service == "catalog")
            } else {
                #expect(line.contains("breaker catalog: open"))
            }
        }
    }

    @Test("Events are filtered by the requested types")
    func eventTypes() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            let follower = try await InterlockProcess.start(
                ["events", "--type", "limit.reached", "--type", "lock"], environment: sidecar.environment())
            try await eventually("the events are followed") { follower.errors.contains("following") }
            _ = try await sidecar.interlock("breaker", "force", "catalog", "open")
            for _ in 0..<4 { _ = try await sidecar.interlock("limit", "take", "catalog") }
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            _ = try await sidecar.interlock("lock", "break", "orders")
            try await eventually("the lock's end is printed") { follower.output.contains("lock orders: broken") }
            follower.send(signal: SIGINT)
            _ = try await follower.end(within: .seconds(10))
            let lines = follower.output.split(separator: "\n")
            #expect(lines.count == 2)
            #expect(lines.first?.contains("limit 1h of catalog: reached, 3 of 3 used") == true)
        }
    }

    @Test("An unknown events channel is rejected")
    func otherChannel() async throws {
        try await SidecarProcess.withSidecar { sidecar in
            let refusal = try await sidecar.interlock("events", "--prefix", "other:")
            #expect(refusal.status == .exited(65))
            #expect(refusal.errors.contains("interlock:events"))
        }
    }

    // MARK: Usage

    @Test(
        "Invalid usage exits with 64",
        arguments: [
            ["--nonsense"], ["status", "--nonsense"], ["nonsense"], ["lock", "acquire"], ["lock", "acquire", "a", "--ttl", "5"],
            ["lock", "list", "--limit", "0"], ["status", "--sidecar", "nowhere"], ["limit", "take", "a", "--cost", "much"],
            ["events", "--type", "weather"],
        ])
    func invalidUsageExitsWith64(arguments: [String]) async throws {
        let outcome = try await InterlockProcess.outcome(arguments)
        #expect(outcome.status == .exited(64))
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.hasPrefix("interlock: "))
    }

    @Test(
        "An unknown command suggests a similar one",
        arguments: [
            (["stauts"], "`interlock stauts`: did you mean `interlock status`?"),
            (["lock", "aquire", "a"], "`interlock lock aquire`: did you mean `interlock lock acquire`?"),
            (["acquire", "a"], "`interlock acquire`: did you mean `interlock lock acquire`?"),
            (["run-chil"], "`interlock run-chil`; see `interlock --help`"),
            (["limit", "frobnicate"], "`interlock limit frobnicate`; see `interlock limit --help`"),
        ])
    func misnamed(arguments: [String], question: String) async throws {
        let outcome = try await InterlockProcess.outcome(arguments)
        #expect(outcome.status == .exited(64))
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors == "interlock: unknown command \(question)\n")
    }

    @Test(
        "An option before its command names the order to write",
        arguments: [
            (["--sidecar", "127.0.0.1:1", "status"], "`interlock status` before `--sidecar`"),
            (["lock", "--ttl=30s", "acquire", "a"], "`interlock lock acquire` before `--ttl=30s`"),
        ])
    func optionBeforeItsCommand(arguments: [String], order: String) async throws {
        let outcome = try await InterlockProcess.outcome(arguments)
        #expect(outcome.status == .exited(64))
        #expect(outcome.errors == "interlock: options follow the command: write \(order)\n")
    }

    @Test("`list` is also `ls`, `show` also `info`, and the version is printed in two ways")
    func listAndShowHaveAliases() async throws {
        try await SidecarProcess.withSidecar(configuration: Self.services) { sidecar in
            _ = try await sidecar.interlock("lock", "acquire", "orders")
            #expect(try await sidecar.interlock("lock", "ls").output.contains("orders"))
            #expect(try await sidecar.interlock("lock", "info", "orders").output.contains("orders"))
            #expect(try await sidecar.interlock("breaker", "ls").output.contains("catalog"))
            #expect(try await sidecar.interlock("breaker", "info", "catalog").output.contains("catalog"))
            #expect(try await sidecar.interlock("limit", "info", "catalog").output.contains("1h"))
        }
        let version = try await InterlockProcess.outcome(["version"])
        #expect(version.status == .exited(0))
        #expect(version.output == (try await InterlockProcess.outcome(["--version"])).output)
    }

    @Test("A duration without a unit is answered with suggestions, and one of several parts is accepted")
    func durationWithoutUnitGetsSuggestions() async throws {
        let bare = try await InterlockProcess.outcome(["lock", "acquire", "a", "--ttl", "30"])
        #expect(bare.status == .exited(64))
        #expect(bare.errors.contains("did you mean 30s?"))
        let words = try await InterlockProcess.outcome(["lock", "acquire", "a", "--wait", "soon"])
        #expect(words.status == .exited(64))
        #expect(words.errors.contains("'--wait <duration>': expected a duration such as 500ms"))
        #expect(!words.errors.contains("did you mean"))
        // The refusal as longer than locks.max_ttl shows that the sidecar parsed the duration.
        try await SidecarProcess.withSidecar { sidecar in
            let outcome = try await sidecar.interlock("lock", "acquire", "a", "--ttl", "1h30m")
            #expect(outcome.status == .exited(65))
            #expect(outcome.errors.contains("5400000"))
        }
    }

    @Test(
        "A port or an HTTP URL instead of a sidecar's address is answered with the likely address",
        arguments: [
            ("7379", "did you mean 127.0.0.1:7379?"), ("http://10.0.0.5:7380/console", "did you mean 10.0.0.5:7379?"),
            ("https://sidecar.example", "did you mean sidecar.example:7379?"), ("nowhere", "got \"nowhere\""),
        ])
    func addresses(argument: String, suggestion: String) async throws {
        let outcome = try await InterlockProcess.outcome(["status", "--sidecar", argument])
        #expect(outcome.status == .exited(64))
        #expect(outcome.errors.hasPrefix("interlock: --sidecar: expected HOST:PORT such as 127.0.0.1:7379"), "\(outcome.errors)")
        #expect(outcome.errors.contains(suggestion), "\(outcome.errors)")
    }

    @Test("An invalid variable exits with 64 and is named")
    func invalidVariableExitsWith64AndIsNamed() async throws {
        let environment = InterlockProcess.environment.updating(["INTERLOCK_SIDECAR": "nowhere"])
        let outcome = try await InterlockProcess.outcome(["status"], environment: environment)
        #expect(outcome.status == .exited(64))
        #expect(outcome.errors.contains("INTERLOCK_SIDECAR"))
    }

    @Test(
        "Every command has help with examples",
        arguments: [
            [], ["serve"], ["check-config"], ["config", "show"], ["status"], ["fleet"], ["top"], ["lock"], ["lock", "acquire"],
            ["lock", "renew"], ["lock", "release"], ["lock", "show"], ["lock", "list"], ["lock", "grants"], ["lock", "break"],
            ["run"], ["limit"], ["limit", "take"], ["limit", "show"], ["breaker"], ["breaker", "show"], ["breaker", "list"],
            ["breaker", "force"], ["events"], ["version"],
        ] as [[String]])
    func everyCommandHasHelpWithExamples(command: [String]) async throws {
        // The width of a pipe is 80 columns unless the environment has another one.
        let environment = InterlockProcess.environment.updating(["COLUMNS": "80"])
        let outcome = try await InterlockProcess.outcome(command + ["--help"], environment: environment)
        #expect(outcome.status == .exited(0))
        #expect(outcome.output.contains("EXAMPLES"))
        let wide = outcome.output.split(separator: "\n").filter { $0.count > 80 }
        #expect(wide.isEmpty, "\(wide)")
        let examples = outcome.output.split(separator: "EXAMPLES\n").last?.split(separator: "\n\n").first ?? ""
        #expect(examples.split(separator: "\n").allSatisfy { $0.hasPrefix("  ") }, "\(examples)")
    }
}

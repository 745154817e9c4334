import SimulatedRedis
import Testing

/// Compares the replies of a server that refuses commands, and the data that survives a restart.
@Suite(.serialized, .requiresRedis7) struct ConditionTests {
    private static let commands: [[String]] = [
        ["PING"], ["GET", "s"], ["SET", "s", "v"], ["DEL", "n"], ["PEXPIRE", "s", "100"], ["PUBLISH", "c", "m"],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", "s"],
        ["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "s"],
        ["EVAL", "return redis.pcall('SET', KEYS[1], 'v')", "1", "s"],
        ["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'v')", "1", "s"],
        ["EVAL", "redis.call('GET', KEYS[1]) return redis.call('HSET', KEYS[1], 'a', 'b')", "1", "other"],
        ["EVAL", "redis.pcall('DEL', KEYS[1]) return redis.pcall('INCR', KEYS[1])", "1", "s"],
        ["SCRIPT", "EXISTS", "x"], ["CLIENT", "SETNAME", "me"], ["WAIT", "0", "0"], ["SELECT", "0"], ["NOSUCH"], ["GET"],
    ]

    @Test(
        "A server out of memory and a replica refuse what Redis refuses",
        arguments: [
            (SimulatedServer.Condition.outOfMemory, ["CONFIG", "SET", "maxmemory", "1"]),
            (.readOnly, ["REPLICAOF", "127.0.0.1", "1"]),
        ])
    func refusals(condition: SimulatedServer.Condition, cause: [String]) throws {
        let comparison = try RedisComparison()
        let connection = try comparison.connect()
        for key in ["s", "n"] { try comparison.send("SET", key, "1", on: connection) }
        try comparison.sendToReal(cause)
        comparison.simulated.condition = condition
        for command in Self.commands { try comparison.send(command.map { Array($0.utf8) }, on: connection) }
        print("\(condition): \(comparison.agreementCount) equal replies")
    }

    /// A simulated server, and the bytes that its connections received.
    private final class StandaloneServer {
        var time: Int64 = 1_000_000
        private(set) lazy var server = SimulatedServer { [unowned self] in time }
        private(set) var output: [UInt8] = []

        func send(_ words: String..., on connection: SimulatedConnection) -> String {
            output = []
            // Send one byte at a time, because commands may arrive split anywhere.
            for byte in RequestEncoder.encode(words) { connection.receive([byte]) }
            return String(decoding: output, as: UTF8.self)
        }

        func discardOutput() { output = [] }

        func connect() -> SimulatedConnection { server.connect { [unowned self] in output += $0 } }
    }

    @Test("A restart restores exactly the given snapshot")
    func restartRestoresExactlyGivenSnapshot() {
        let standalone = StandaloneServer()
        let connection = standalone.connect()
        #expect(standalone.send("SET", "k", "1", on: connection) == "+OK\r\n")
        let snapshot = standalone.server.keyspace
        #expect(standalone.send("SET", "k", "2", on: connection) == "+OK\r\n")
        let digest = standalone.send("SCRIPT", "LOAD", "return 1", on: connection)
        #expect(digest == "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n")
        var isClosed = false
        connection.onClose = { isClosed = true }
        standalone.server.restart(with: snapshot)
        #expect(isClosed)
        let next = standalone.connect()
        #expect(standalone.send("GET", "k", on: next) == "$1\r\n1\r\n")
        #expect(
            standalone.send("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0", on: next)
                == "-NOSCRIPT No matching script. Please use EVAL.\r\n")
    }

    @Test("Tracking clients are notified of expired keys even if no command accesses them")
    func backgroundExpiry() {
        let standalone = StandaloneServer()
        let reader = standalone.connect()
        let listener = standalone.connect()
        _ = standalone.send("SUBSCRIBE", "__redis__:invalidate", on: listener)
        _ = standalone.send("SET", "k", "1", "PX", "10", on: reader)
        _ = standalone.send("CLIENT", "TRACKING", "ON", "REDIRECT", "2", "NOLOOP", on: reader)
        #expect(standalone.send("GET", "k", on: reader) == "$1\r\n1\r\n")
        standalone.time += 11_000
        _ = standalone.send("PING", on: reader)
        standalone.discardOutput()
        standalone.server.removeExpiredKeys()
        #expect(
            String(decoding: standalone.output, as: UTF8.self)
                == "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n")
        #expect(standalone.server.keyspace.count == 0)
    }

    @Test("A protocol error ends the connection")
    func protocolErrorEndsConnection() {
        let standalone = StandaloneServer()
        let connection = standalone.connect()
        var isClosed = false
        connection.onClose = { isClosed = true }
        connection.receive(Array("*1\r\n:4\r\nPING\r\n".utf8))
        #expect(String(decoding: standalone.output, as: UTF8.self) == "-ERR Protocol error: expected '$', got ':'\r\n")
        #expect(isClosed)
    }
}

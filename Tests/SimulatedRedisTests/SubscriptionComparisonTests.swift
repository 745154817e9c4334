import SimulatedRedis
import Testing

/// Compares subscriptions and tracking: the messages that a connection receives because of commands on others.
@Suite(.serialized, .requiresRedis7) struct SubscriptionComparisonTests {
    @Test("Channels are subscribed, served and unsubscribed as in Redis")
    func channelsBehaveAsInRedis() throws {
        let comparison = try RedisComparison()
        let publisher = try comparison.connect()
        let listener = try comparison.connect()
        try comparison.send(["SUBSCRIBE", "a", "b", "a"].map { Array($0.utf8) }, on: listener, replies: 3)
        try comparison.send("PSUBSCRIBE", "b*", on: listener)
        try comparison.send("PING", on: listener)
        try comparison.send("PING", "x", on: listener)
        try comparison.send("GET", "k", on: listener)
        for channel in ["a", "b", "bc", "none"] { try comparison.send("PUBLISH", channel, "to \(channel)", on: publisher) }
        try comparison.send("EVAL", "return redis.call('PUBLISH', 'b', 'from a script')", "0", on: publisher)
        try comparison.compareMessages(to: listener)
        try comparison.send("UNSUBSCRIBE", "b", on: listener)
        try comparison.send("UNSUBSCRIBE", "never", on: listener)
        try comparison.send("UNSUBSCRIBE", on: listener)
        try comparison.send("UNSUBSCRIBE", on: listener)
        try comparison.send("PUNSUBSCRIBE", on: listener)
        try comparison.send("PUNSUBSCRIBE", on: listener)
        try comparison.send("PING", on: listener)
        try comparison.send("GET", "k", on: listener)
        try comparison.send("PUBLISH", "a", "nobody hears", on: publisher)
        print("subscriptions: \(comparison.agreementCount) equal replies")
    }

    @Test("Reads are tracked as in Redis", arguments: 0..<6 as Range<UInt64>)
    func readsAreTrackedAsInRedis(seed: UInt64) throws {
        let comparison = try RedisComparison()
        var random = RandomCommands(seed: seed)
        let listener = try comparison.connect()
        let offset = try clientIDOffset(of: listener, in: comparison)
        try comparison.send("SUBSCRIBE", "__redis__:invalidate", on: listener)
        let connections = try (0..<3).map { _ in try comparison.connect() }
        for connection in connections { try track(connection, to: listener, offset: offset, comparison, "NOLOOP") }
        for _ in 0..<1500 {
            if random.chance(20) { try comparison.advance(milliseconds: random.pick([1, 5, 40])) }
            let connection = random.pick(connections)
            switch random.number(0...19) {
            case 0: try comparison.send("FLUSHALL", on: connection)
            case 1: try comparison.send("CLIENT", "TRACKING", "OFF", on: connection)
            case 2: try track(connection, to: listener, offset: offset, comparison, "NOLOOP")
            case 3: try track(connection, to: listener, offset: offset, comparison)
            default:
                let command = random.next()
                guard !["KEYS", "SCAN", "HGETALL"].contains(command[0].uppercased()) else { continue }
                try comparison.send(command.map { Array($0.utf8) }, on: connection)
            }
            try comparison.compareMessages(to: listener)
        }
        print("tracking, seed \(seed): \(comparison.agreementCount) equal replies")
    }

    /// Returns the difference between a connection's client IDs on the real and the simulated server.
    private func clientIDOffset(of connection: ComparedConnection, in comparison: RedisComparison) throws -> Int64 {
        connection.send([Array("CLIENT".utf8), Array("ID".utf8)])
        guard case .line(let real) = try connection.readReal(), case .line(let simulated)? = connection.readSimulated(),
            let realID = Int64(real.dropFirst()), let simulatedID = Int64(simulated.dropFirst())
        else { throw RealRedis.Failure(reason: "CLIENT ID did not return a number") }
        return realID - simulatedID
    }

    private func track(
        _ connection: ComparedConnection, to listener: ComparedConnection, offset: Int64, _ comparison: RedisComparison,
        _ options: String...
    ) throws {
        let words = ["CLIENT", "TRACKING", "ON", "REDIRECT"]
        try comparison.send(
            real: words + ["\(listener.number + offset)"] + options, simulated: words + ["\(listener.number)"] + options,
            on: connection)
    }
}

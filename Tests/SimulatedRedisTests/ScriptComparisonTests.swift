import Testing

/// Runs the scripts of Interlock in random order, with subscribers to the messages that they publish.
@Suite(.serialized, .requiresRedis7) struct ScriptComparisonTests {
    @Test("The lock scripts behave as in Redis", arguments: 0..<6 as Range<UInt64>)
    func lockScriptsBehaveAsInRedis(seed: UInt64) throws {
        try compare(seed: seed) { scripts, _ in scripts.lockCall() }
    }

    @Test("The quorum scripts behave as in Redis", arguments: 0..<2 as Range<UInt64>)
    func quorumScriptsBehaveAsInRedis(seed: UInt64) throws {
        try compare(seed: seed) { scripts, _ in scripts.quorumCall() }
    }

    @Test("The limit scripts behave as in Redis", arguments: 0..<4 as Range<UInt64>)
    func limitScriptsBehaveAsInRedis(seed: UInt64) throws {
        try compare(seed: seed) { scripts, _ in scripts.limitCall() }
    }

    @Test("The breaker script behaves as in Redis", arguments: 0..<4 as Range<UInt64>)
    func breakerScriptBehavesAsInRedis(seed: UInt64) throws {
        try compare(seed: seed) { scripts, send in
            scripts.breakerCall(generation: try send(["HGET", "b", "generation"]).text ?? "0")
        }
    }

    @Test("The fleet and event scripts behave as in Redis")
    func fleetAndEventScriptsBehaveAsInRedis() throws {
        try compare(seed: 1) { scripts, _ in scripts.fleetCall() }
    }

    private func compare(
        seed: UInt64, _ next: (inout ProjectScripts, ([String]) throws -> RawReply) throws -> ProjectScripts.Call
    ) throws {
        let comparison = try RedisComparison()
        var scripts = ProjectScripts(seed: seed)
        let connection = try comparison.connect()
        let listener = try comparison.connect()
        try comparison.send("SUBSCRIBE", "events", on: listener)
        for sidecar in ProjectScripts.sidecars { try comparison.send("SUBSCRIBE", "wake:\(sidecar)", on: listener) }
        for number in 0..<1200 {
            if scripts.chance(60) { try comparison.advance(milliseconds: scripts.pick([1, 7, 30, 120, 350, 2000])) }
            if scripts.chance(20) { try comparison.set(time: comparison.time + 137) }
            if scripts.chance(2) { try comparison.advance(milliseconds: -1500) }
            let call = try next(&scripts) { words in try comparison.send(words.map { Array($0.utf8) }, on: connection) }
            let reply = try comparison.send(
                [Array("EVAL".utf8), call.script, Array("\(call.keys.count)".utf8)] + call.keys.map { Array($0.utf8) }
                    + call.arguments, on: connection, isUnordered: call.isUnordered)
            // If a call fails on both servers, the comparison proves nothing.
            if case .line(let line) = reply { try #require(!line.hasPrefix("-"), "\(line)") }
            if number.isMultiple(of: 10) {
                try comparison.compareMessages(to: listener)
                try compareData(comparison, connection)
            }
        }
        print("scripts, seed \(seed): \(comparison.agreementCount) equal replies")
    }

    /// Compares all keys and their values.
    private func compareData(_ comparison: RedisComparison, _ connection: ComparedConnection) throws {
        guard case .array(let keys?) = try comparison.send("KEYS", "*", on: connection, isUnordered: true) else { return }
        for key in keys.compactMap(\.text) {
            try comparison.send("PTTL", key, on: connection)
            switch try comparison.send("TYPE", key, on: connection) {
            case .line("+string"): try comparison.send("GET", key, on: connection)
            case .line("+hash"): try comparison.send("HGETALL", key, on: connection, isUnordered: true)
            case .line("+zset"): try comparison.send("ZRANGE", key, "0", "-1", "WITHSCORES", on: connection)
            case .line("+stream"): try comparison.send("XRANGE", key, "-", "+", on: connection)
            default: break
            }
        }
    }
}

enum KeyCommands {
    static let all: [Command] = [
        Command("del", -2, .write, .all, del),
        Command("exists", -2, .read, .all) { server, call in
            .integer(Int64(call.arguments.dropFirst().count { server.entry($0) != nil }))
        },
        Command("type", 2, .read, .first) { server, call in
            .status(Bytes(stringLiteral: server.entry(call[1])?.value.typeName ?? "none"))
        },
        Command("pttl", 2, .read, .first) { server, call in
            .integer(remaining(server, call) { $0 })
        },
        Command("ttl", 2, .read, .first) { server, call in
            .integer(remaining(server, call) { ($0 + 500) / 1000 })
        },
        Command("pexpire", -3, [.write], .first) { (server, call) throws(CommandError) in
            try expire(server, call, unit: 1, from: server.milliseconds)
        },
        Command("expire", -3, [.write], .first) { (server, call) throws(CommandError) in
            try expire(server, call, unit: 1000, from: server.milliseconds)
        },
        Command("pexpireat", -3, [.write], .first) { (server, call) throws(CommandError) in
            try expire(server, call, unit: 1, from: 0)
        },
        Command("expireat", -3, [.write], .first) { (server, call) throws(CommandError) in
            try expire(server, call, unit: 1000, from: 0)
        },
        Command("persist", 2, .write, .first, persist),
        Command("keys", 2, .read, .none, keys),
        Command("scan", -2, .read, .none, scan),
        Command("dbsize", 1, .read) { server, _ in .integer(Int64(server.keyspace.count)) },
        Command("flushall", -1, .write, .none, flush),
        Command("flushdb", -1, .write, .none, flush),
    ]

    private static func del(_ server: SimulatedServer, _ call: Invocation) -> Reply {
        .integer(Int64(call.arguments.dropFirst().count { server.entry($0) != nil && server.remove($0) }))
    }

    /// Returns the remaining lifetime of a key, as `PTTL` and `TTL` do: -2 if it does not exist, -1 if it does not
    /// expire.
    private static func remaining(
        _ server: SimulatedServer, _ call: Invocation, in unit: (_ milliseconds: Int64) -> Int64
    ) -> Int64 {
        guard let entry = server.entry(call[1]) else { return -2 }
        return entry.expiryMilliseconds.map { unit(max(0, $0 - server.milliseconds)) } ?? -1
    }

    /// Sets the time at which a key expires.
    /// - Parameters:
    ///   - unit: the length of the argument's unit, in milliseconds.
    ///   - startMilliseconds: the time from which the argument counts.
    private static func expire(
        _ server: SimulatedServer, _ call: Invocation, unit: Int64, from startMilliseconds: Int64
    ) throws(CommandError) -> Reply {
        let condition = try ExpiryCondition(call.arguments.dropFirst(3))
        let (lifetimeMilliseconds, isTooLong) = try call.integer(2).multipliedReportingOverflow(by: unit)
        // Redis rejects only times that are too far in the future.
        guard !isTooLong, startMilliseconds <= 0 || lifetimeMilliseconds <= .max - startMilliseconds else {
            throw .invalidExpiry(call.command.name)
        }
        let endMilliseconds = lifetimeMilliseconds + startMilliseconds
        guard let entry = server.entry(call[1]),
            condition.allows(endMilliseconds, after: entry.expiryMilliseconds)
        else {
            return .integer(0)
        }
        if endMilliseconds <= server.milliseconds, !server.isReplica {
            _ = server.remove(call[1])
        } else {
            server.keyspace.setExpiry(of: call[1], to: endMilliseconds)
            server.signalChange(of: call[1])
        }
        return .integer(1)
    }

    private static func persist(_ server: SimulatedServer, _ call: Invocation) -> Reply {
        guard let entry = server.entry(call[1]), entry.expiryMilliseconds != nil else { return .integer(0) }
        server.keyspace.setExpiry(of: call[1], to: nil)
        server.signalChange(of: call[1])
        return .integer(1)
    }

    private static func keys(_ server: SimulatedServer, _ call: Invocation) -> Reply {
        let pattern = GlobPattern(bytes: call[1])
        // Expired keys are hidden, not deleted: they reappear if the clock is set back.
        let entries = server.keyspace.all.filter { pattern.matches($0.key) && !server.hasExpired($0) }
        return .bulks(entries.map(\.key))
    }

    private static func scan(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard let cursor = UInt64(call[1].text) else { throw CommandError("ERR invalid cursor") }
        var pattern: GlobPattern?
        var type: Bytes?
        var count: Int64 = 10
        for index in stride(from: 2, to: call.count, by: 2) {
            guard index + 1 < call.count else { throw .syntax }
            if call[index].isWord("count") {
                count = try call.integer(index + 1)
                guard count >= 1 else { throw .syntax }
            } else if call[index].isWord("match") {
                pattern = GlobPattern(bytes: call[index + 1])
            } else if call[index].isWord("type") {
                type = call[index + 1].lowercased
            } else {
                throw .syntax
            }
        }
        let (next, entries) = server.keyspace.scan(after: cursor, count: Int(clamping: count))
        let keys = entries.filter { entry in
            pattern?.matches(entry.key) ?? true && server.entry(entry.key) != nil
                && type.map { $0 == Bytes(stringLiteral: entry.value.typeName) } ?? true
        }
        return .array([.bulk(Bytes(String(next))), .bulks(keys.map(\.key))])
    }

    private static func flush(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard call.count == 1 || (call.count == 2 && (call[1].isWord("sync") || call[1].isWord("async"))) else {
            throw .syntax
        }
        server.removeAllKeys()
        return .ok
    }
}

/// The conditions of `EXPIRE`: `NX`, `XX`, `GT`, `LT`.
private struct ExpiryCondition {
    private var requiresNoExpiry = false
    private var requiresExpiry = false
    private var requiresLater = false
    private var requiresEarlier = false

    init(_ options: ArraySlice<Bytes>) throws(CommandError) {
        for option in options {
            if option.isWord("nx") {
                requiresNoExpiry = true
            } else if option.isWord("xx") {
                requiresExpiry = true
            } else if option.isWord("gt") {
                requiresLater = true
            } else if option.isWord("lt") {
                requiresEarlier = true
            } else {
                throw CommandError("ERR Unsupported option \(option.text)")
            }
        }
        if requiresNoExpiry, requiresExpiry || requiresLater || requiresEarlier {
            throw CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
        }
        if requiresLater, requiresEarlier { throw CommandError("ERR GT and LT options at the same time are not compatible") }
    }

    func allows(_ endMilliseconds: Int64, after expiryMilliseconds: Int64?) -> Bool {
        guard let expiryMilliseconds else { return !requiresExpiry && !requiresLater }
        return !requiresNoExpiry && (!requiresLater || endMilliseconds > expiryMilliseconds)
            && (!requiresEarlier || endMilliseconds < expiryMilliseconds)
    }
}

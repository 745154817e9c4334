enum HashCommands {
    static let all: [Command] = [
        Command("hset", -4, [.write, .needsMemory], .first, hset),
        Command("hincrby", 4, [.write, .needsMemory], .first, hincrby),
        Command("hdel", -3, .write, .first, hdel),
        Command("hget", 3, .read, .first) { (server, call) throws(CommandError) in
            try server.hash(call[1])?[call[2]].map { .bulk($0) } ?? .null
        },
        Command("hmget", -3, .read, .first) { (server, call) throws(CommandError) in
            let fields = try server.hash(call[1])
            return .array(call.arguments.dropFirst(2).map { name in fields?[name].map { .bulk($0) } ?? .null })
        },
        Command("hgetall", 2, .read, .first) { (server, call) throws(CommandError) in
            let fields = try server.hash(call[1])?.all ?? []
            return .array(fields.flatMap { [.bulk($0.name), .bulk($0.value)] })
        },
        Command("hlen", 2, .read, .first) { (server, call) throws(CommandError) in
            .integer(Int64(try server.hash(call[1])?.count ?? 0))
        },
        Command("hexists", 3, .read, .first) { (server, call) throws(CommandError) in
            .boolean(try server.hash(call[1])?[call[2]] != nil)
        },
    ]

    private static func hset(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard call.count.isMultiple(of: 2) else { throw .wrongNumberOfArguments("hset") }
        let added = try server.updateHash(call[1]) { fields in
            stride(from: 2, to: call.count, by: 2).count { fields.set(call[$0], to: call[$0 + 1]) }
        }
        server.signalChange(of: call[1])
        return .integer(Int64(added))
    }

    private static func hincrby(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        let amount = try call.integer(3)
        var number: Int64 = 0
        if let value = try server.hash(call[1])?[call[2]] {
            guard let integer = value.integer else { throw CommandError("ERR hash value is not an integer") }
            number = integer
        }
        let (sum, isOverflow) = number.addingReportingOverflow(amount)
        guard !isOverflow else { throw CommandError("ERR increment or decrement would overflow") }
        _ = try server.updateHash(call[1]) { $0.set(call[2], to: Bytes(sum)) }
        server.signalChange(of: call[1])
        return .integer(sum)
    }

    private static func hdel(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard try server.hash(call[1]) != nil else { return .integer(0) }
        let (removedCount, isEmpty) = try server.updateHash(call[1]) { fields in
            (call.arguments.dropFirst(2).count { fields.remove($0) }, fields.count == 0)
        }
        if isEmpty {
            _ = server.remove(call[1])
        } else if removedCount > 0 {
            server.signalChange(of: call[1])
        }
        return .integer(Int64(removedCount))
    }
}

enum StringCommands {
    static let all: [Command] = [
        Command("get", 2, .read, .first, get),
        Command("mget", -2, .read, .all, mget),
        Command("set", -3, [.write, .needsMemory], .first, set),
        Command("incr", 2, [.write, .needsMemory], .first) { (server, call) throws(CommandError) in
            try add(1, server, call)
        },
        Command("decr", 2, [.write, .needsMemory], .first) { (server, call) throws(CommandError) in
            try add(-1, server, call)
        },
        Command("incrby", 3, [.write, .needsMemory], .first) { (server, call) throws(CommandError) in
            try add(call.integer(2), server, call)
        },
        Command("decrby", 3, [.write, .needsMemory], .first) { (server, call) throws(CommandError) in
            let amount = try call.integer(2)
            guard amount != .min else { throw CommandError("ERR decrement would overflow") }
            return try add(-amount, server, call)
        },
    ]

    private static func get(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        try server.string(call[1]).map { .bulk($0) } ?? .null
    }

    private static func mget(_ server: SimulatedServer, _ call: Invocation) -> Reply {
        .array(
            call.arguments.dropFirst().map { key in
                guard case .string(let value) = server.entry(key)?.value else { return .null }
                return .bulk(value)
            })
    }

    private static func set(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        let options = try SetOptions(call)
        let expiryMilliseconds = try options.lifetime.map { (lifetime) throws(CommandError) in
            try lifetime.end(nowMilliseconds: server.milliseconds)
        }
        var oldValue = Reply.null
        if options.returnsOldValue { oldValue = try server.string(call[1]).map { .bulk($0) } ?? .null }
        let entry = server.entry(call[1])
        switch options.condition {
        case .ifAbsent where entry != nil, .ifPresent where entry == nil: return oldValue
        default: break
        }
        server.keyspace.set(
            call[1], to: .string(call[2]),
            expiryMilliseconds: options.keepsExpiry ? entry?.expiryMilliseconds : expiryMilliseconds)
        server.signalChange(of: call[1])
        return options.returnsOldValue ? oldValue : .ok
    }

    private static func add(
        _ amount: Int64, _ server: SimulatedServer, _ call: Invocation
    ) throws(CommandError) -> Reply {
        let entry = server.entry(call[1])
        var number: Int64 = 0
        if let entry {
            guard case .string(let value) = entry.value else { throw .wrongType }
            guard let integer = value.integer else { throw .notAnInteger }
            number = integer
        }
        let (sum, isOverflow) = number.addingReportingOverflow(amount)
        guard !isOverflow else { throw CommandError("ERR increment or decrement would overflow") }
        server.keyspace.set(call[1], to: .string(Bytes(sum)), expiryMilliseconds: entry?.expiryMilliseconds)
        server.signalChange(of: call[1])
        return .integer(sum)
    }
}

/// The options that follow `SET key value`.
private struct SetOptions {
    enum Condition {
        case none
        case ifAbsent
        case ifPresent
    }

    struct Lifetime {
        var amount: Bytes
        var isInSeconds: Bool
        /// Whether the amount counts from now rather than from the Unix epoch.
        var isRelative: Bool

        /// Returns the time at which the key expires, as Unix time in milliseconds.
        func end(nowMilliseconds: Int64) throws(CommandError) -> Int64 {
            guard let amount = amount.integer else { throw .notAnInteger }
            let (milliseconds, isTooLong) = amount.multipliedReportingOverflow(by: isInSeconds ? 1000 : 1)
            let (end, isTooLate) = milliseconds.addingReportingOverflow(isRelative ? nowMilliseconds : 0)
            guard amount > 0, !isTooLong, !isTooLate else { throw .invalidExpiry("set") }
            return end
        }
    }

    var condition = Condition.none
    var lifetime: Lifetime?
    var keepsExpiry = false
    var returnsOldValue = false

    init(_ call: Invocation) throws(CommandError) {
        var index = 3
        while index < call.count {
            let option = call[index]
            if option.isWord("nx"), condition != .ifPresent {
                condition = .ifAbsent
            } else if option.isWord("xx"), condition != .ifAbsent {
                condition = .ifPresent
            } else if option.isWord("get") {
                returnsOldValue = true
            } else if option.isWord("keepttl"), lifetime == nil {
                keepsExpiry = true
            } else if let unit = Self.unit(option), lifetime == nil, !keepsExpiry, index + 1 < call.count {
                index += 1
                lifetime = Lifetime(amount: call[index], isInSeconds: unit.isInSeconds, isRelative: unit.isRelative)
            } else {
                throw .syntax
            }
            index += 1
        }
    }

    private static func unit(_ option: Bytes) -> (isInSeconds: Bool, isRelative: Bool)? {
        if option.isWord("px") { return (false, true) }
        if option.isWord("ex") { return (true, true) }
        if option.isWord("pxat") { return (false, false) }
        if option.isWord("exat") { return (true, false) }
        return nil
    }
}

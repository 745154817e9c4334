/// `PING`: is anybody there?
public struct Ping: RedisCommand, Sendable {
    public init() {}

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("PING")
    }

    public func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "PONG" else { throw reply.unexpected(for: "PING") }
    }
}

/// Any command by its words, for tools that pass on what a person typed; its reply is handed out as it came.
public struct AnyCommand: RedisCommand, Sendable {
    public var arguments: [String]

    public init(_ arguments: [String]) {
        precondition(!arguments.isEmpty, "a command has a name")
        self.arguments = arguments
    }

    public func encode(into encoder: inout CommandEncoder) {
        for argument in arguments { encoder.append(argument) }
    }

    public func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}

/// `INFO section`: the server's own report, `key:value` lines as a dictionary.
public struct Info: RedisCommand, Sendable {
    public var section: String

    public init(section: String) {
        self.section = section
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("INFO")
        encoder.append(section)
    }

    public func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
        guard let text = reply.text else { throw reply.unexpected(for: "INFO") }
        var fields: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[String(line[..<colon])] = String(line[line.index(after: colon)...])
        }
        return fields
    }
}

/// `SCAN cursor MATCH pattern COUNT n TYPE type`: one step through the keyspace.
public struct Scan: RedisCommand, Sendable {
    public var cursor: String
    public var pattern: String
    public var count: Int
    public var type: String

    public init(cursor: String, pattern: String, count: Int, type: String) {
        self.cursor = cursor
        self.pattern = pattern
        self.count = count
        self.type = type
    }

    public func encode(into encoder: inout CommandEncoder) {
        for argument in ["SCAN", cursor, "MATCH", pattern] { encoder.append(argument) }
        encoder.append("COUNT")
        encoder.append(count)
        encoder.append("TYPE")
        encoder.append(type)
    }

    /// The next cursor, `0` when the scan is complete, and the keys of this step.
    public func decode(_ reply: RedisReply) throws(RedisError) -> (cursor: String, keys: [String]) {
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw reply.unexpected(for: "SCAN")
        }
        return (next, keys.compactMap(\.text))
    }
}

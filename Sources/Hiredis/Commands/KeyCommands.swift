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

/// `HSET key field value …`.
public struct SetFields: RedisCommand, Sendable {
    public var key: String
    public var fields: [(name: String, value: String)]

    public init(key: String, fields: [(name: String, value: String)]) {
        self.key = key
        self.fields = fields
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("HSET")
        encoder.append(key)
        for field in fields {
            encoder.append(field.name)
            encoder.append(field.value)
        }
    }

    /// How many fields are new.
    public func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let count = reply.integer else { throw reply.unexpected(for: "HSET") }
        return count
    }
}

/// `PEXPIRE key milliseconds`.
public struct ExpireKey: RedisCommand, Sendable {
    public var key: String
    public var milliseconds: Int64

    public init(key: String, milliseconds: Int64) {
        self.key = key
        self.milliseconds = milliseconds
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("PEXPIRE")
        encoder.append(key)
        encoder.append(milliseconds)
    }

    /// Whether the key exists.
    public func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let count = reply.integer else { throw reply.unexpected(for: "PEXPIRE") }
        return count == 1
    }
}

/// `DEL key`.
public struct DeleteKey: RedisCommand, Sendable {
    public var key: String

    public init(key: String) {
        self.key = key
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("DEL")
        encoder.append(key)
    }

    /// Whether the key existed.
    public func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let count = reply.integer else { throw reply.unexpected(for: "DEL") }
        return count == 1
    }
}

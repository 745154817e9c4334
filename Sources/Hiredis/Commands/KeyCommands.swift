/// `PING`: is anybody there?
package struct Ping: RedisCommand, Sendable {
    package init() {}

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("PING")
    }

    package func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "PONG" else { throw reply.unexpected(for: "PING") }
    }
}

/// `INFO section`: the server's own report, `key:value` lines as a dictionary.
package struct Info: RedisCommand, Sendable {
    package var section: String

    package init(section: String) {
        self.section = section
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("INFO")
        encoder.append(section)
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
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
package struct Scan: RedisCommand, Sendable {
    package var cursor: String
    package var pattern: String
    package var count: Int
    package var type: String

    package init(cursor: String, pattern: String, count: Int, type: String) {
        self.cursor = cursor
        self.pattern = pattern
        self.count = count
        self.type = type
    }

    package func encode(into encoder: inout CommandEncoder) {
        for argument in ["SCAN", cursor, "MATCH", pattern] { encoder.append(argument) }
        encoder.append("COUNT")
        encoder.append(count)
        encoder.append("TYPE")
        encoder.append(type)
    }

    /// The next cursor, `0` when the scan is complete, and the keys of this step.
    package func decode(_ reply: RedisReply) throws(RedisError) -> (cursor: String, keys: [String]) {
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw reply.unexpected(for: "SCAN")
        }
        return (next, keys.compactMap(\.text))
    }
}

/// `HGETALL key`: the fields of a hash; none of one that is not there.
package struct GetFields: KeyCommand, Sendable {
    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("HGETALL")
        encoder.append(key)
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
        guard let flat = reply.array, flat.count.isMultiple(of: 2) else { throw reply.unexpected(for: "HGETALL") }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: flat.count, by: 2) {
            if let name = flat[index].text, let value = flat[index + 1].text { fields[name] = value }
        }
        return fields
    }
}

/// `HSET key field value …`.
package struct SetFields: KeyCommand, Sendable {
    package var key: String
    package var fields: [(name: String, value: String)]

    package init(key: String, fields: [(name: String, value: String)]) {
        self.key = key
        self.fields = fields
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("HSET")
        encoder.append(key)
        for field in fields {
            encoder.append(field.name)
            encoder.append(field.value)
        }
    }

    /// How many fields are new.
    package func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let count = reply.integer else { throw reply.unexpected(for: "HSET") }
        return count
    }
}

/// `PEXPIRE key milliseconds`.
package struct ExpireKey: KeyCommand, Sendable {
    package var key: String
    package var milliseconds: Int64

    package init(key: String, milliseconds: Int64) {
        self.key = key
        self.milliseconds = milliseconds
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("PEXPIRE")
        encoder.append(key)
        encoder.append(milliseconds)
    }

    /// Whether the key exists.
    package func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let count = reply.integer else { throw reply.unexpected(for: "PEXPIRE") }
        return count == 1
    }
}

/// `DEL key`.
package struct DeleteKey: KeyCommand, Sendable {
    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("DEL")
        encoder.append(key)
    }

    /// Whether the key existed.
    package func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let count = reply.integer else { throw reply.unexpected(for: "DEL") }
        return count == 1
    }
}

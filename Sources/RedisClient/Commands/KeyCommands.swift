/// `SCAN cursor MATCH pattern COUNT n TYPE type`: one step through the keyspace.
package struct Scan: NamedCommand, Sendable {
    package static let nameParts = ["SCAN"]

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

    package func encodeArguments(into encoder: inout CommandEncoder) {
        for argument in [cursor, "MATCH", pattern, "COUNT", "\(count)", "TYPE", type] { encoder.append(argument) }
    }

    /// Returns the keys of this step and the next cursor, which is `0` if the scan is complete.
    package func decode(_ reply: RedisReply) throws(RedisError) -> (cursor: String, keys: [String]) {
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw unexpected(reply)
        }
        return (next, keys.compactMap(\.text))
    }
}

/// `GET key`: the text at a key.
package struct GetText: KeyCommand, Sendable {
    package static let nameParts = ["GET"]

    package var key: String

    package init(key: String) {
        self.key = key
    }

    /// Returns `nil` if the key does not exist.
    package func decode(_ reply: RedisReply) throws(RedisError) -> String? {
        if case .null = reply { return nil }
        guard let text = reply.text else { throw unexpected(reply) }
        return text
    }
}

/// `PTTL key`: the remaining time of a key.
package struct RemainingTime: KeyCommand, Sendable {
    package enum Reply: Hashable, Sendable {
        case absent
        /// The key expires after this number of milliseconds; `nil` if it never expires.
        case present(Int64?)
    }

    package static let nameParts = ["PTTL"]

    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        switch reply.integer {
        case -2: return .absent
        case -1: return .present(nil)
        case let milliseconds?: return .present(milliseconds)
        case nil: throw unexpected(reply)
        }
    }
}

/// `HGETALL key`: the fields of a hash; empty if the key does not exist.
package struct GetFields: KeyCommand, Sendable {
    package static let nameParts = ["HGETALL"]

    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
        guard reply.array?.count.isMultiple(of: 2) ?? false, let fields = reply.fields else { throw unexpected(reply) }
        return fields
    }
}

/// `HSET key field value …`. The reply is the number of new fields.
package struct SetFields: KeyCommand, Sendable {
    package typealias Reply = Int64
    package static let nameParts = ["HSET"]

    package var key: String
    package var fields: [(name: String, value: String)]

    package init(key: String, fields: [(name: String, value: String)]) {
        self.key = key
        self.fields = fields
    }

    package func encodeArguments(into encoder: inout CommandEncoder) {
        for field in fields {
            encoder.append(field.name)
            encoder.append(field.value)
        }
    }
}

/// `PEXPIRE key milliseconds`. The reply is whether the key exists.
package struct ExpireKey: KeyCommand, Sendable {
    package typealias Reply = Bool
    package static let nameParts = ["PEXPIRE"]

    package var key: String
    package var milliseconds: Int64

    package init(key: String, milliseconds: Int64) {
        self.key = key
        self.milliseconds = milliseconds
    }

    package func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(milliseconds) }
}

/// `DEL key`. The reply is whether the key existed.
package struct DeleteKey: KeyCommand, Sendable {
    package typealias Reply = Bool
    package static let nameParts = ["DEL"]

    package var key: String

    package init(key: String) {
        self.key = key
    }
}

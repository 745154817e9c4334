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

/// `AUTH [username] password`.
struct Auth: RedisCommand {
    var username: String?
    var password: String

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("AUTH")
        if let username { encoder.append(username) }
        encoder.append(password)
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "AUTH") }
    }
}

/// `SELECT database`.
struct Select: RedisCommand {
    var database: Int

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("SELECT")
        encoder.append(database)
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "SELECT") }
    }
}

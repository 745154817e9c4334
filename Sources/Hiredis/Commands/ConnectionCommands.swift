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

/// `CLIENT SETNAME name`: what `CLIENT LIST` shows of this connection.
struct SetClientName: RedisCommand {
    var name: String

    func encode(into encoder: inout CommandEncoder) {
        for word in ["CLIENT", "SETNAME", name] { encoder.append(word) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "CLIENT SETNAME") }
    }
}

/// `ROLE`: `master`, `slave` or `sentinel`.
struct ServerRole: RedisCommand {
    /// What a primary answers.
    static let primary = "master"

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("ROLE")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> String {
        guard let role = reply.array?.first?.text else { throw reply.unexpected(for: "ROLE") }
        return role
    }
}

/// `TIME`: in microseconds since 1970.
struct ServerTime: RedisCommand {
    func encode(into encoder: inout CommandEncoder) {
        encoder.append("TIME")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) }), (1_000_000_000...9_999_999_999).contains(seconds),
            (0..<1_000_000).contains(microseconds)
        else { throw reply.unexpected(for: "TIME") }
        return seconds * 1_000_000 + microseconds
    }
}

/// `WAIT replicas milliseconds`: waits until so many replicas have acknowledged what this connection wrote before.
package struct WaitForReplicas: RedisCommand, Sendable {
    package var replicas: Int
    /// How long to wait for them; 0: for ever.
    package var timeoutMilliseconds: Int64

    package init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("WAIT")
        encoder.append(replicas)
        encoder.append(timeoutMilliseconds)
    }

    /// How many have acknowledged it: fewer than asked for when the time ran out.
    package func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let count = reply.integer else { throw reply.unexpected(for: "WAIT") }
        return count
    }
}

/// `CLIENT ID`: what this connection is called by the server.
struct ClientID: RedisCommand {
    func encode(into encoder: inout CommandEncoder) {
        encoder.append("CLIENT")
        encoder.append("ID")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let id = reply.integer else { throw reply.unexpected(for: "CLIENT ID") }
        return id
    }
}

/// `CLIENT TRACKING ON REDIRECT client NOLOOP`: from now on the server remembers which keys this connection reads, and
/// tells `client`, which subscribes to `RedisSubscriber.invalidations`, when another connection changes one. Once: until
/// it is read again.
package struct TrackReads: RedisCommand, Sendable {
    package var client: Int64

    package init(redirectingTo client: Int64) {
        self.client = client
    }

    package func encode(into encoder: inout CommandEncoder) {
        for word in ["CLIENT", "TRACKING", "ON", "REDIRECT"] { encoder.append(word) }
        encoder.append(client)
        encoder.append("NOLOOP")
    }

    package func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "CLIENT TRACKING") }
    }
}

/// `GET key`.
package struct GetText: KeyCommand, Sendable {
    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("GET")
        encoder.append(key)
    }

    /// `nil`: there is no such key.
    package func decode(_ reply: RedisReply) throws(RedisError) -> String? {
        if case .null = reply { return nil }
        guard let text = reply.text else { throw reply.unexpected(for: "GET") }
        return text
    }
}

/// `PTTL key`.
package struct RemainingTime: KeyCommand, Sendable {
    package enum Reply: Hashable, Sendable {
        case absent
        /// For so many milliseconds; `nil`: without end.
        case lasts(Int64?)
    }

    package var key: String

    package init(key: String) {
        self.key = key
    }

    package func encode(into encoder: inout CommandEncoder) {
        encoder.append("PTTL")
        encoder.append(key)
    }

    package func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        switch reply.integer {
        case -2: return .absent
        case -1: return .lasts(nil)
        case let milliseconds?: return .lasts(milliseconds)
        case nil: throw reply.unexpected(for: "PTTL")
        }
    }
}

/// `ASKING`: the next command on this connection is about a slot that is on its way here.
struct Asking: RedisCommand {
    func encode(into encoder: inout CommandEncoder) {
        encoder.append("ASKING")
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "ASKING") }
    }
}

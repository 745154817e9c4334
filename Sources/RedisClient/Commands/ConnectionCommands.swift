/// `PING`: checks that the server responds.
package struct Ping: NamedCommand, Sendable {
    package static let nameParts = ["PING"]

    package init() {}

    package func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "PONG" else { throw unexpected(reply) }
    }
}

/// `INFO section`: the `key:value` lines that the server reports about itself, as a dictionary.
package struct Info: NamedCommand, Sendable {
    package static let nameParts = ["INFO"]

    package var section: String

    package init(section: String) {
        self.section = section
    }

    package func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(section) }

    package func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
        guard let text = reply.text else { throw unexpected(reply) }
        var fields: [String: String] = [:]
        for line in text.split(whereSeparator: \.isNewline) where !line.hasPrefix("#") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields[String(line[..<colon])] = String(line[line.index(after: colon)...])
        }
        return fields
    }
}

/// `HELLO`: the server's name, version and role.
struct Hello: NamedCommand {
    static let nameParts = ["HELLO"]

    func decode(_ reply: RedisReply) throws(RedisError) -> [String: String] {
        guard let fields = reply.fields else { throw unexpected(reply) }
        return fields
    }
}

/// `AUTH [username] password`.
struct Auth: NamedCommand {
    typealias Reply = Void
    static let nameParts = ["AUTH"]

    var username: String?
    var password: String

    func encodeArguments(into encoder: inout CommandEncoder) {
        if let username { encoder.append(username) }
        encoder.append(password)
    }
}

/// `SELECT database`.
struct Select: NamedCommand {
    typealias Reply = Void
    static let nameParts = ["SELECT"]

    var database: Int

    func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(database) }
}

/// `CLIENT SETNAME name`: sets the connection's name in `CLIENT LIST`.
struct SetClientName: NamedCommand {
    typealias Reply = Void
    static let nameParts = ["CLIENT", "SETNAME"]

    var name: String

    func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(name) }
}

/// `ROLE`: the server's role, `master`, `slave` or `sentinel`.
struct ServerRole: NamedCommand {
    static let nameParts = ["ROLE"]
    /// The role of a primary.
    static let primary = "master"

    func decode(_ reply: RedisReply) throws(RedisError) -> String {
        guard let role = reply.array?.first?.text else { throw unexpected(reply) }
        return role
    }
}

/// `TIME`: the server's clock reading as Unix time in microseconds.
struct ServerTime: NamedCommand {
    static let nameParts = ["TIME"]

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].text.flatMap({ Int64($0) }),
            let microseconds = parts[1].text.flatMap({ Int64($0) }), (1_000_000_000...9_999_999_999).contains(seconds),
            (0..<1_000_000).contains(microseconds)
        else { throw unexpected(reply) }
        return seconds * 1_000_000 + microseconds
    }
}

/// `WAIT replicas milliseconds`: waits until that many replicas have acknowledged the earlier writes of this
/// connection. The reply is the number of replicas that have done so, which is lower than requested after a timeout.
package struct WaitForReplicas: NamedCommand, Sendable {
    package typealias Reply = Int64
    package static let nameParts = ["WAIT"]

    package var replicaCount: Int
    /// The maximum wait; 0 to wait forever.
    package var timeoutMilliseconds: Int64

    package init(replicaCount: Int, timeoutMilliseconds: Int64) {
        self.replicaCount = replicaCount
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    package func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(replicaCount)
        encoder.append(timeoutMilliseconds)
    }
}

/// `CLIENT ID`: the client ID of this connection.
struct ClientID: NamedCommand {
    typealias Reply = Int64
    static let nameParts = ["CLIENT", "ID"]
}

/// `CLIENT TRACKING ON REDIRECT client NOLOOP`: the server tracks the keys that this connection reads from now on. When
/// another connection changes one, the server notifies `clientID`, which subscribes to `RedisSubscriber.invalidations`.
/// A key is reported once, until it is read again.
package struct TrackReads: NamedCommand, Sendable {
    package typealias Reply = Void
    package static let nameParts = ["CLIENT", "TRACKING"]

    package var clientID: Int64

    package init(redirectingTo clientID: Int64) {
        self.clientID = clientID
    }

    package func encodeArguments(into encoder: inout CommandEncoder) {
        for word in ["ON", "REDIRECT"] { encoder.append(word) }
        encoder.append(clientID)
        encoder.append("NOLOOP")
    }
}

/// `ASKING`: announces that the next command on this connection concerns a hash slot that the server is importing.
struct Asking: NamedCommand {
    typealias Reply = Void
    static let nameParts = ["ASKING"]
}

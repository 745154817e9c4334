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
public struct TrackReads: RedisCommand, Sendable {
    public var client: Int64

    public init(redirectingTo client: Int64) {
        self.client = client
    }

    public func encode(into encoder: inout CommandEncoder) {
        for word in ["CLIENT", "TRACKING", "ON", "REDIRECT"] { encoder.append(word) }
        encoder.append(client)
        encoder.append("NOLOOP")
    }

    public func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.text == "OK" else { throw reply.unexpected(for: "CLIENT TRACKING") }
    }
}

/// `GET key`.
public struct GetText: RedisCommand, Sendable {
    public var key: String

    public init(key: String) {
        self.key = key
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("GET")
        encoder.append(key)
    }

    /// `nil`: there is no such key.
    public func decode(_ reply: RedisReply) throws(RedisError) -> String? {
        if case .null = reply { return nil }
        guard let text = reply.text else { throw reply.unexpected(for: "GET") }
        return text
    }
}

/// `PTTL key`.
public struct RemainingTime: RedisCommand, Sendable {
    public enum Reply: Hashable, Sendable {
        case absent
        /// For so many milliseconds; `nil`: without end.
        case lasts(Int64?)
    }

    public var key: String

    public init(key: String) {
        self.key = key
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("PTTL")
        encoder.append(key)
    }

    public func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        switch reply.integer {
        case -2: return .absent
        case -1: return .lasts(nil)
        case let milliseconds?: return .lasts(milliseconds)
        case nil: throw reply.unexpected(for: "PTTL")
        }
    }
}

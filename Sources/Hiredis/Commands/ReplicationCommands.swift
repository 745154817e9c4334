/// `WAIT replicas milliseconds`: waits until so many replicas have acknowledged what this connection wrote before.
public struct WaitForReplicas: RedisCommand, Sendable {
    public var replicas: Int
    /// How long to wait for them; 0: for ever.
    public var timeoutMilliseconds: Int64

    public init(replicas: Int, timeoutMilliseconds: Int64) {
        self.replicas = replicas
        self.timeoutMilliseconds = timeoutMilliseconds
    }

    public func encode(into encoder: inout CommandEncoder) {
        encoder.append("WAIT")
        encoder.append(replicas)
        encoder.append(timeoutMilliseconds)
    }

    /// How many have acknowledged it: fewer than asked for when the time ran out.
    public func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let count = reply.integer else { throw reply.unexpected(for: "WAIT") }
        return count
    }
}

/// `SENTINEL GET-MASTER-ADDR-BY-NAME name`: the primary's address. During a failover, a Sentinel reports the promoted
/// replica from the moment of its promotion.
struct PrimaryAddress: NamedCommand {
    static let nameParts = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"]

    var name: String

    func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(name) }

    /// Returns the address; `nil` if this Sentinel does not monitor a primary of that name.
    func decode(_ reply: RedisReply) throws(RedisError) -> RedisConfiguration.Address? {
        if case .null = reply { return nil }
        guard let parts = reply.array, parts.count == 2, let host = parts[0].text, !host.isEmpty,
            let port = parts[1].integer.flatMap({ Int(exactly: $0) }), (1...65535).contains(port)
        else { throw unexpected(reply) }
        return .host(host, port: port)
    }
}

/// `SENTINEL MASTER name`, decoded only for the epoch of the last failover that this Sentinel knows and the number of
/// replicas.
struct PrimaryDescription: NamedCommand {
    static let nameParts = ["SENTINEL", "MASTER"]

    struct Reply: Equatable {
        var epoch: Int64
        /// The number of known replicas, reachable or not; `nil` if the Sentinel does not report it.
        var replicaCount: Int?
    }

    var name: String

    func encodeArguments(into encoder: inout CommandEncoder) { encoder.append(name) }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        // Search only the even positions, because the primary's name, which is a value, may equal a field's name.
        let fields = reply.array ?? []
        let names = stride(from: 0, to: fields.count - 1, by: 2)
        func number(_ field: String) -> Int64? { names.first { fields[$0].text == field }.flatMap { fields[$0 + 1].integer } }
        guard let epoch = number("config-epoch") else { throw unexpected(reply) }
        return Reply(epoch: epoch, replicaCount: number("num-slaves").flatMap { Int(exactly: $0) })
    }
}

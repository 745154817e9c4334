/// `SENTINEL GET-MASTER-ADDR-BY-NAME name`: where the primary is, of a failover that has got so far already the promoted replica.
struct PrimaryAddress: RedisCommand {
    var name: String

    func encode(into encoder: inout CommandEncoder) {
        for word in ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name] { encoder.append(word) }
    }

    /// `nil`: this Sentinel watches no primary of that name.
    func decode(_ reply: RedisReply) throws(RedisError) -> RedisConfiguration.Address? {
        if case .null = reply { return nil }
        guard let parts = reply.array, parts.count == 2, let host = parts[0].text, !host.isEmpty,
            let port = parts[1].integer.flatMap({ Int(exactly: $0) }), (1...65535).contains(port)
        else { throw reply.unexpected(for: "SENTINEL GET-MASTER-ADDR-BY-NAME") }
        return .host(host, port: port)
    }
}

/// `SENTINEL MASTER name`, of which only the epoch of the last failover that this Sentinel knows of is read.
struct PrimaryEpoch: RedisCommand {
    var name: String

    func encode(into encoder: inout CommandEncoder) {
        for word in ["SENTINEL", "MASTER", name] { encoder.append(word) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        // Names and values by turns: a primary may be called like a field.
        let fields = reply.array ?? []
        let names = stride(from: 0, to: fields.count - 1, by: 2)
        guard let place = names.first(where: { fields[$0].text == "config-epoch" }), let epoch = fields[place + 1].integer else {
            throw reply.unexpected(for: "SENTINEL MASTER")
        }
        return epoch
    }
}

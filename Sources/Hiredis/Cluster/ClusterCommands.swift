/// `CLUSTER INFO`, of which only the epoch is read: the highest that this server has heard of.
struct ClusterEpoch: RedisCommand {
    func encode(into encoder: inout CommandEncoder) {
        encoder.append("CLUSTER")
        encoder.append("INFO")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        let line = reply.text?.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cluster_current_epoch:") }
        guard let epoch = line?.split(separator: ":").last.flatMap({ Int64($0) }) else {
            throw reply.unexpected(for: "CLUSTER INFO")
        }
        return epoch
    }
}

/// `CLUSTER SLOTS`: which primaries serve which slots.
struct ClusterSlots: RedisCommand {
    /// Whom it is sent to: a server that does not know what others call it says that it is wherever it was reached.
    var asked: RedisConfiguration.Address

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("CLUSTER")
        encoder.append("SLOTS")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> SlotMap {
        guard let ranges = reply.array else { throw reply.unexpected(for: "CLUSTER SLOTS") }
        var served: [(slots: ClosedRange<HashSlot>, primary: RedisConfiguration.Address)] = []
        var replicas: [RedisConfiguration.Address] = []
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer.flatMap({ HashSlot($0) }),
                let last = parts[1].integer.flatMap({ HashSlot($0) }), first <= last
            else { throw reply.unexpected(for: "CLUSTER SLOTS") }
            // One whose address is not known yet comes with a later answer.
            if let primary = address(parts[2]) { served.append((first...last, primary)) }
            replicas += parts.dropFirst(3).compactMap { address($0) }
        }
        return SlotMap(served, replicas: replicas)
    }

    private func address(_ node: RedisReply) -> RedisConfiguration.Address? {
        guard let parts = node.array, parts.count >= 2, let port = parts[1].integer.flatMap({ Int(exactly: $0) }) else {
            return nil
        }
        return asked.named(host: parts[0].text ?? "", port: port)
    }
}

extension RedisConfiguration.Address {
    /// The server of a cluster that this one names so; `nil`: it does not know where that is.
    func named(host: String, port: Int) -> Self? {
        guard (1...65535).contains(port), host != "?" else { return nil }
        if !host.isEmpty { return .host(host, port: port) }
        guard case .host(let own, _) = self else { return nil }
        return .host(own, port: port)
    }
}

/// What a server of a cluster answers in place of a reply, and where the command belongs instead.
enum Redirection: Equatable {
    typealias Address = RedisConfiguration.Address

    /// The slot is another server's.
    case moved(HashSlot, Address)
    /// The slot is on its way to another server, and what is asked for is there already, or nowhere.
    case ask(Address)
    /// The slot is on its way, and only a part of what is asked for has arrived.
    case tryAgain
    /// The slot is nobody's for now.
    case down

    /// `nil`: the error is no such answer.
    /// - Parameter asked: who answered.
    init?(_ error: RedisError, asked: Address) {
        guard case .server(let condition) = error.code else { return nil }
        switch condition {
        case .tryAgain: self = .tryAgain
        case .clusterDown: self = .down
        case .moved, .ask:
            let words = error.message.split(separator: " ")
            guard words.count == 3, let slot = Int64(words[1]).flatMap({ HashSlot($0) }),
                let colon = words[2].lastIndex(of: ":"), let port = Int(words[2][words[2].index(after: colon)...]),
                let address = asked.named(host: String(words[2][..<colon]), port: port)
            else { return nil }
            self = condition == .moved ? .moved(slot, address) : .ask(address)
        default: return nil
        }
    }
}

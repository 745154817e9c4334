/// `CLUSTER NODES`, decoded only for the configuration epoch of each server.
struct ClusterEpochs: NamedCommand {
    static let nameParts = ["CLUSTER", "NODES"]

    /// Returns the epochs by server ID.
    func decode(_ reply: RedisReply) throws(RedisError) -> [String: Int64] {
        guard let text = reply.text else { throw unexpected(reply) }
        var epochs: [String: Int64] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            // ID, address, flags, primary, ping, pong, epoch, link, slots.
            let words = line.split(separator: " ", maxSplits: 7)
            guard words.count > 6, let epoch = Int64(words[6]) else { continue }
            epochs[String(words[0])] = epoch
        }
        return epochs
    }
}

/// `CLUSTER SLOTS`: the primary and the replicas of each range of hash slots.
struct ClusterSlots: NamedCommand {
    static let nameParts = ["CLUSTER", "SLOTS"]

    /// The address under which this command reaches the server. A server that does not know its own address reports an
    /// empty host, which stands for the host of this address.
    var queried: RedisConfiguration.Address

    func decode(_ reply: RedisReply) throws(RedisError) -> ReportedSlotMap {
        guard let ranges = reply.array else { throw unexpected(reply) }
        var slotMap = ReportedSlotMap(claims: [])
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer.flatMap({ HashSlot($0) }),
                let last = parts[1].integer.flatMap({ HashSlot($0) }), first <= last
            else { throw unexpected(reply) }
            // If the primary's address is not known yet, a later reply has it.
            if let primary = address(of: parts[2]) {
                let id = parts[2].array.flatMap { $0.count > 2 ? $0[2].text : nil } ?? ""
                slotMap.claims.append(ReportedSlotMap.Claim(slots: first...last, primary: primary, id: id))
                slotMap.hostNames[primary] = hostName(of: parts[2])
            }
            for part in parts.dropFirst(3) {
                guard let replica = address(of: part) else { continue }
                slotMap.hostNames[replica] = hostName(of: part)
                slotMap.replicas.append(replica)
            }
            slotMap.maximumReplicas = max(slotMap.maximumReplicas, parts.count - 3)
        }
        return slotMap
    }

    /// Returns the host name that a node announces in addition to its address. Certificates are issued for host names.
    private func hostName(of node: RedisReply) -> String? {
        guard let parts = node.array, parts.count > 3, let fields = parts[3].array?.map(\.text) else { return nil }
        let index = stride(from: 0, to: fields.count - 1, by: 2).first { fields[$0] == "hostname" }
        return index.flatMap { fields[$0 + 1] }.flatMap { $0.isEmpty ? nil : $0 }
    }

    private func address(of node: RedisReply) -> RedisConfiguration.Address? {
        guard let parts = node.array, parts.count >= 2, let port = parts[1].integer.flatMap({ Int(exactly: $0) }) else {
            return nil
        }
        return queried.address(host: parts[0].text ?? "", port: port)
    }
}

extension RedisConfiguration.Address {
    /// Resolves a node's address from the `host` and `port` that this server reports. Returns `nil` if this server does
    /// not know the node's address.
    func address(host: String, port: Int) -> Self? {
        guard (1...65535).contains(port), host != "?" else { return nil }
        if !host.isEmpty { return .host(host, port: port) }
        guard case .host(let ownHost, _) = self else { return nil }
        return .host(ownHost, port: port)
    }
}

/// The refusal of a server to run a command. Names the server that can run it, if that is known.
enum Redirection: Equatable {
    typealias Address = RedisConfiguration.Address

    /// Another server serves the hash slot.
    case moved(HashSlot, Address)
    /// The hash slot is migrating. The keys have either arrived at the other server or do not exist.
    case ask(Address)
    /// The hash slot is migrating, and only some of the keys have arrived.
    case tryAgain
    /// No server serves the hash slot at the moment.
    case down

    /// Reads the redirection in an error; returns `nil` if the error is of another kind.
    /// - Parameter sender: the server that replied with the error.
    init?(_ error: RedisError, sender: Address) {
        guard case .server(let condition) = error.code else { return nil }
        switch condition {
        case .tryAgain: self = .tryAgain
        case .clusterDown: self = .down
        case .moved, .ask:
            let words = error.message.split(separator: " ")
            // If the sender does not know the target, the directory queries other servers.
            guard words.count == 3, let slot = Int64(words[1]).flatMap({ HashSlot($0) }),
                let colon = words[2].lastIndex(of: ":"), let port = Int(words[2][words[2].index(after: colon)...]),
                let address = sender.address(host: String(words[2][..<colon]), port: port)
            else {
                self = .down
                return
            }
            self = condition == .moved ? .moved(slot, address) : .ask(address)
        default: return nil
        }
    }
}

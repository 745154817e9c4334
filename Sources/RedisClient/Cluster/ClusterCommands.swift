/// `CLUSTER NODES`, of which only the epoch of each server's configuration is read.
struct ClusterEpochs: NamedCommand {
    static let words = ["CLUSTER", "NODES"]

    /// By the servers' IDs.
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

/// `CLUSTER SLOTS`: which primaries serve which slots.
struct ClusterSlots: NamedCommand {
    static let words = ["CLUSTER", "SLOTS"]

    /// Whom it is sent to: a server that does not know what others call it says that it is wherever it was reached.
    var asked: RedisConfiguration.Address

    func decode(_ reply: RedisReply) throws(RedisError) -> ClusterAnswer {
        guard let ranges = reply.array else { throw unexpected(reply) }
        var answer = ClusterAnswer(claims: [])
        for range in ranges {
            guard let parts = range.array, parts.count >= 3, let first = parts[0].integer.flatMap({ HashSlot($0) }),
                let last = parts[1].integer.flatMap({ HashSlot($0) }), first <= last
            else { throw unexpected(reply) }
            // One whose address is not known yet comes with a later answer.
            if let primary = address(parts[2]) {
                let id = parts[2].array.flatMap { $0.count > 2 ? $0[2].text : nil } ?? ""
                answer.claims.append(ClusterAnswer.Claim(slots: first...last, primary: primary, id: id))
                answer.names[primary] = name(parts[2])
            }
            for part in parts.dropFirst(3) {
                guard let replica = address(part) else { continue }
                answer.names[replica] = name(part)
                answer.replicas.append(replica)
            }
            answer.mostReplicas = max(answer.mostReplicas, parts.count - 3)
        }
        return answer
    }

    /// The host name that it announces beside an address: certificates are of names.
    private func name(_ node: RedisReply) -> String? {
        guard let parts = node.array, parts.count > 3, let fields = parts[3].array?.map(\.text) else { return nil }
        let place = stride(from: 0, to: fields.count - 1, by: 2).first { fields[$0] == "hostname" }
        return place.flatMap { fields[$0 + 1] }.flatMap { $0.isEmpty ? nil : $0 }
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
            // Where to is not known there, and asked elsewhere.
            guard words.count == 3, let slot = Int64(words[1]).flatMap({ HashSlot($0) }),
                let colon = words[2].lastIndex(of: ":"), let port = Int(words[2][words[2].index(after: colon)...]),
                let address = asked.named(host: String(words[2][..<colon]), port: port)
            else {
                self = .down
                return
            }
            self = condition == .moved ? .moved(slot, address) : .ask(address)
        default: return nil
        }
    }
}

/// Where a server is reached, as others name it.
package struct ServerAddress: Hashable, Sendable {
    package var host: String
    package var port: Int

    package init(host: String, port: Int = 6379) {
        self.host = host
        self.port = port
    }
}

/// A server's part in replication. A server without one is alone: `WAIT` then answers what it was told to.
package struct Replication {
    package enum Role: Hashable, Sendable {
        case primary
        case replica(of: ServerAddress)
    }

    /// A replica as its primary knows it.
    struct Replica {
        var address: ServerAddress
        /// The last offset that it has acknowledged.
        var offset: Int64
    }

    package internal(set) var role: Role
    /// Rises with every update. A replica's is that of the last update that it has applied.
    package internal(set) var offset: Int64 = 0
    /// Of a replica: whether its primary sends it updates.
    package internal(set) var isLinked = false
    /// Of a primary, the one that was connected first in front.
    var replicas: [Replica] = []

    package init(role: Role) {
        self.role = role
    }

    package var isReplica: Bool { role != .primary }

    func acknowledging(_ offset: Int64) -> Int64 { Int64(replicas.count { $0.offset >= offset }) }
}

/// What one command has changed, or time: a script is one command.
package struct ReplicationUpdate: Sendable {
    /// The primary's offset after it.
    package let offset: Int64
    /// All keys were removed before the changes.
    let removesAll: Bool
    /// In the order of the last change of each; `nil` for a removed key.
    let changes: [(key: Bytes, entry: Keyspace.Entry?)]
    /// Published messages are for the replicas' subscribers too.
    let messages: [PublishedMessage]
}

/// All of a primary's data, for a replica that begins anew.
package struct FullSync: Sendable {
    let keyspace: Keyspace
    package let offset: Int64
}

/// A message on its way to subscribers of other servers.
package struct PublishedMessage: Sendable {
    let channel: Bytes
    let message: Bytes
    /// Of a channel that belongs to a slot.
    package let isOfShard: Bool
}

/// What the running command has changed so far.
struct PendingUpdate {
    private var keys: [Bytes] = []
    private var known: Set<Bytes> = []
    private var removesAll = false
    private var messages: [PublishedMessage] = []

    var isEmpty: Bool { keys.isEmpty && !removesAll && messages.isEmpty }

    mutating func change(_ key: Bytes) {
        if known.insert(key).inserted { keys.append(key) }
    }

    mutating func removeAll() {
        (keys, known) = ([], [])
        removesAll = true
    }

    mutating func publish(_ message: PublishedMessage) { messages.append(message) }

    func update(offset: Int64, of keyspace: Keyspace) -> ReplicationUpdate {
        ReplicationUpdate(
            offset: offset, removesAll: removesAll, changes: keys.map { (key: $0, entry: keyspace[$0]) }, messages: messages)
    }
}

/// What a Sentinel tells clients.
package struct SentinelKnowledge {
    /// What the primary is called.
    package var name: String
    package var primary: ServerAddress
    /// Of the failover that made it the primary.
    package var epoch: Int64

    package init(name: String, primary: ServerAddress, epoch: Int64) {
        self.name = name
        self.primary = primary
        self.epoch = epoch
    }
}

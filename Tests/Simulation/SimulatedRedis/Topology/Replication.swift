/// The address at which clients and other servers reach a server.
package struct ServerAddress: Hashable, Sendable {
    package var host: String
    package var port: Int

    package init(host: String, port: Int = 6379) {
        self.host = host
        self.port = port
    }
}

/// A server's role in replication.
package struct Replication {
    package enum Role: Hashable, Sendable {
        case primary
        case replica(of: ServerAddress)
    }

    /// A replica as seen by its primary.
    struct Replica {
        var address: ServerAddress
        /// The last offset that the replica has acknowledged.
        var offset: Int64
    }

    package internal(set) var role: Role
    /// The replication offset, which rises with every update. On a replica: the offset of the last update that it has
    /// applied.
    package internal(set) var offset: Int64 = 0
    /// Whether the primary sends updates to this replica.
    package internal(set) var isLinked = false
    /// The primary's replicas, in the order in which they connected.
    var replicas: [Replica] = []

    package init(role: Role) {
        self.role = role
    }

    package var isReplica: Bool { role != .primary }

    func acknowledgingCount(_ offset: Int64) -> Int64 { Int64(replicas.count { $0.offset >= offset }) }
}

/// The changes that one command made, or the removal of expired keys. A script is one command.
package struct ReplicationUpdate: Sendable {
    /// The primary's offset after the update.
    package let offset: Int64
    /// Whether all keys were removed before the changes.
    let removesAll: Bool
    /// The changed keys, ordered by the last change of each. The entry is `nil` if the key was removed.
    let changes: [(key: Bytes, entry: Keyspace.Entry?)]
    /// The messages that the command published. The replicas' subscribers receive them too.
    let messages: [PublishedMessage]
}

/// All of a primary's data, for a replica that synchronizes from scratch.
package struct FullSync: Sendable {
    let keyspace: Keyspace
    package let offset: Int64
}

/// A message to be delivered to subscribers of other servers.
package struct PublishedMessage: Sendable {
    let channel: Bytes
    let message: Bytes
    /// Whether the channel is sharded, that is, belongs to a hash slot.
    package let isSharded: Bool
}

/// The changes that the running command has made so far.
struct PendingUpdate {
    private var keys: [Bytes] = []
    private var seenKeys: Set<Bytes> = []
    private var removesAll = false
    private var messages: [PublishedMessage] = []

    var isEmpty: Bool { keys.isEmpty && !removesAll && messages.isEmpty }

    mutating func change(_ key: Bytes) {
        if seenKeys.insert(key).inserted { keys.append(key) }
    }

    mutating func removeAll() {
        (keys, seenKeys) = ([], [])
        removesAll = true
    }

    mutating func publish(_ message: PublishedMessage) { messages.append(message) }

    func update(offset: Int64, of keyspace: Keyspace) -> ReplicationUpdate {
        ReplicationUpdate(
            offset: offset, removesAll: removesAll, changes: keys.map { (key: $0, entry: keyspace[$0]) }, messages: messages)
    }
}

/// The state that a Sentinel reports to clients.
package struct SentinelState {
    /// The configured name of the primary.
    package var name: String
    package var primary: ServerAddress
    /// The epoch of the failover that promoted the primary.
    package var epoch: Int64

    package init(name: String, primary: ServerAddress, epoch: Int64) {
        self.name = name
        self.primary = primary
        self.epoch = epoch
    }
}

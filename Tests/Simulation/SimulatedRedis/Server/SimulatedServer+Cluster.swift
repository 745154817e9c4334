/// The keys of hash slots, and messages published on a cluster.
extension SimulatedServer {
    /// Returns the keys of these hash slots, in the order of their creation.
    package func keys(inSlots slots: Set<Int>) -> [MovedKey] {
        keyspace.all.compactMap { slots.contains(ClusterSlot.of($0.key)) ? MovedKey(entry: $0) : nil }
    }

    /// The number of keys per hash slot; empty slots are omitted.
    package var keyCounts: [Int: Int] {
        keyspace.all.reduce(into: [:]) { $0[ClusterSlot.of($1.key), default: 0] += 1 }
    }

    /// Moves one key to another server, as `MIGRATE` does: the key appears there as soon as it disappears here.
    package func move(_ key: MovedKey, to target: SimulatedServer) {
        guard let entry = keyspace[key.entry.key], remove(entry.key) else { return }
        reportChanges()
        flushOutput()
        target.keyspace.set(entry.key, to: entry.value, expiryMilliseconds: entry.expiryMilliseconds)
        target.signalChange(of: entry.key)
        target.reportChanges()
        target.flushOutput()
    }

    /// Deletes all keys of these hash slots, which another server rightfully owns.
    package func removeKeys(inSlots slots: Set<Int>) {
        for key in keys(inSlots: slots) { _ = remove(key.entry.key) }
        reportChanges()
        flushOutput()
    }

    /// Publishes a message, as `PUBLISH` does. Returns the number of receivers at this server.
    func publish(_ message: Bytes, on channel: Bytes) -> Int {
        let published = PublishedMessage(channel: channel, message: message, isSharded: false)
        if cluster != nil {
            onClusterPublish?(published)
        } else if replication != nil {
            pendingUpdate.publish(published)
        }
        return subscriptions.publish(message, on: channel, from: self)
    }

    /// Publishes a message on a sharded channel, as `SPUBLISH` does. Returns the number of receivers at this server.
    func publishToShard(_ message: Bytes, on channel: Bytes) -> Int {
        if cluster != nil { onClusterPublish?(PublishedMessage(channel: channel, message: message, isSharded: true)) }
        return subscriptions.publishToShard(message, on: channel, from: self)
    }

    /// Delivers a message that was published on another server.
    package func deliver(_ message: PublishedMessage) {
        if message.isSharded {
            _ = subscriptions.publishToShard(message.message, on: message.channel, from: self)
        } else {
            _ = subscriptions.publish(message.message, on: message.channel, from: self)
        }
        flushOutput()
    }
}

/// A key being moved from one server of a cluster to another.
package struct MovedKey: Sendable {
    let entry: Keyspace.Entry

    package var slot: Int { ClusterSlot.of(entry.key) }
}

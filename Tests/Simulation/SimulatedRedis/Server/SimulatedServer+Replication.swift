/// Replication without the network. The world carries updates and acknowledgments between servers.
extension SimulatedServer {
    /// Whether expired keys are hidden rather than deleted.
    var isReplica: Bool { condition == .readOnly || replication?.isReplica ?? false }

    /// Whether writes by clients are rejected.
    var isReadOnly: Bool { isReplica && isReplicaReadOnly }

    // MARK: Primary

    /// Registers a replica and returns all data. `onUpdate` receives every later update.
    package func fullSync(for replica: ServerAddress) -> FullSync {
        removeReplica(replica)
        replication?.replicas.append(Replication.Replica(address: replica, offset: 0))
        return FullSync(keyspace: keyspace, offset: replication?.offset ?? 0)
    }

    /// Removes a replica. Its acknowledgments no longer count.
    package func removeReplica(_ address: ServerAddress) {
        replication?.replicas.removeAll { $0.address == address }
    }

    /// Records that a replica has applied everything up to this offset. Answers each `WAIT` that this completes.
    package func acknowledge(_ offset: Int64, by address: ServerAddress) {
        guard let index = replication?.replicas.firstIndex(where: { $0.address == address }) else { return }
        replication?.replicas[index].offset = offset
        for connection in connections {
            guard let wait = connection.replicaWait, let count = replication?.acknowledgingCount(wait.offset),
                count >= wait.replicas
            else { continue }
            connection.endWait(with: .integer(count))
        }
    }

    /// Answers a `WAIT` that has timed out.
    func waitTimedOut(_ number: UInt64, of connection: SimulatedConnection) {
        guard let wait = connection.replicaWait, wait.number == number else { return }
        connection.endWait(with: .integer(replication?.acknowledgingCount(wait.offset) ?? 0))
    }

    /// Sends the changes of the completed command to replicas.
    func reportChanges() {
        guard !pendingUpdate.isEmpty else { return }
        let pending = pendingUpdate
        pendingUpdate = PendingUpdate()
        guard let offset = replication?.offset, !isReplica else { return }
        replication?.offset = offset + 1
        onUpdate?(pending.update(offset: offset + 1, of: keyspace))
    }

    // MARK: Replica

    /// Replaces all data with the primary's.
    package func load(_ sync: FullSync) {
        removeAllKeys()
        keyspace = sync.keyspace
        pendingUpdate = PendingUpdate()
        replication?.offset = sync.offset
        replication?.isLinked = true
        flushOutput()
    }

    /// Applies the primary's next update.
    package func apply(_ update: ReplicationUpdate) {
        if update.removesAll { removeAllKeys() }
        for (key, entry) in update.changes {
            if let entry {
                keyspace.set(key, to: entry.value, expiryMilliseconds: entry.expiryMilliseconds)
            } else {
                _ = keyspace.remove(key)
            }
            signalChange(of: key)
        }
        pendingUpdate = PendingUpdate()
        replication?.offset = update.offset
        for message in update.messages { deliver(message) }
        flushOutput()
    }

    /// Records that the primary no longer sends updates.
    package func primaryLost() { replication?.isLinked = false }

    // MARK: Changes of role

    /// Makes the server a primary. It keeps its data.
    ///
    /// - Parameter closesConnections: `true` if a Sentinel orders the promotion, `false` in a cluster.
    package func promote(closesConnections: Bool) {
        replication?.role = .primary
        replication?.replicas = []
        replication?.isLinked = false
        if closesConnections { closeAllConnections() }
    }

    /// Makes the server a replica. It keeps its data until its primary sends other data.
    ///
    /// - Parameter closesConnections: `true` if a Sentinel orders the demotion, `false` in a cluster.
    package func demote(to primary: ServerAddress, closesConnections: Bool) {
        replication?.role = .replica(of: primary)
        replication?.replicas = []
        replication?.isLinked = false
        for connection in connections where connection.replicaWait != nil {
            connection.closeAfterReply()
            connection.endWait(
                with: .error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"))
        }
        if closesConnections { closeAllConnections() }
    }

    private func closeAllConnections() {
        flushOutput()
        for connection in connections { connection.closeByServer() }
    }
}

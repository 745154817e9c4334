internal import Glibc
internal import InterlockCore
package import RedisClient

/// Changes of a cluster: failovers, moves of hash slots, and servers that join or leave.
extension ClusterFleet {
    // MARK: Failovers

    /// Takes a primary of the cluster down.
    /// - Parameters:
    ///   - loss: the way in which the primary is lost.
    ///   - serverIndex: the index of the primary among those that serve hash slots, modulo their count.
    package func losePrimary(_ loss: PrimaryLoss, serverIndex: Int) async throws {
        var candidate: (primary: Member, replica: Member)?
        // The servers learn of a recent promotion or demotion one by one.
        try await eventually(within: Self.recoveryTimeout, "the other servers list a replica of the primary") {
            let nodes = try await nodes()
            let primaries = members.filter { member in nodes.contains { $0.id == member.id && !$0.slots.isEmpty } }
            guard !primaries.isEmpty else { return false }
            let primary = primaries[serverIndex % primaries.count]
            let replica = members.first { member in nodes.contains { $0.id == member.id && $0.primaryID == primary.id }
            }
            candidate = replica.map { (primary, $0) }
            return candidate != nil
        }
        guard let (primary, replica) = candidate else { return }
        lostPrimary = (primary, loss)
        switch loss {
        case .killed: await primary.server.kill()
        case .stopped: await primary.server.pause()
        case .cutOff: _ = try await requireSuccess(replica, ["CLUSTER", "FAILOVER", "TAKEOVER"])
        }
    }

    /// Waits until the replica of the lost primary has taken over its hash slots, brings the lost primary back, and
    /// waits until the cluster is complete.
    package func recover() async throws {
        if let (primary, loss) = lostPrimary {
            try await eventually(within: Self.recoveryTimeout, "another server has the lost server's hash slots") {
                let nodes = try await nodes(excluding: primary)
                return nodes.allSatisfy { $0.id != primary.id || $0.slots.isEmpty }
                    && nodes.reduce(0) { $0 + ($1.slots.map(\.count).reduce(0, +)) } == HashSlot.count
            }
            lostPrimary = nil
            switch loss {
            case .killed: try await primary.server.restart(keepingData: true)
            case .stopped: await primary.server.resume()
            case .cutOff: break
            }
        }
        try await waitUntilHealthy()
    }

    // MARK: Slots

    /// Moves hash slots one at a time, as `redis-cli --cluster reshard` does. Meanwhile, servers reply to commands on
    /// a migrating slot with `ASK` or `TRYAGAIN`.
    /// - Parameter serverIndex: the index of the target among the other primaries, modulo their count.
    package func reshard(_ slots: [HashSlot], serverIndex: Int) async throws {
        let primaries = try await primaries()
        for slot in slots {
            let source = try await owner(of: slot)
            let others = primaries.filter { $0.id != source.id }
            let target = others[serverIndex % others.count]
            try await beginMove(of: slot, to: target)
            try await finishMove(of: slot, to: target)
        }
        try await waitUntilHealthy()
    }

    /// Returns the servers that serve hash slots.
    package func primaries() async throws -> [Member] {
        let nodes = try await nodes()
        return members.filter { member in nodes.contains { $0.id == member.id && !$0.slots.isEmpty } }
    }

    /// Moves hash slots to the targets in rotation, in batches, so that no slot is migrating for long.
    private func move(_ slots: [HashSlot], from source: Member, to targets: [Member]) async throws {
        let batchSize = 32
        for (batchIndex, start) in stride(from: 0, to: slots.count, by: batchSize).enumerated() {
            let batch = Array(slots[start..<min(start + batchSize, slots.count)])
            try await move(batch, from: source, to: targets[batchIndex % targets.count])
        }
    }

    private func move(_ slots: [HashSlot], from source: Member, to target: Member) async throws {
        func setSlots(_ member: Member, _ words: String...) async throws {
            try await sendAll(slots.map { ["CLUSTER", "SETSLOT", "\($0)"] + words }, to: member)
        }
        try await setSlots(target, "IMPORTING", source.id)
        try await setSlots(source, "MIGRATING", target.id)
        let keyCounts = try await sendAll(slots.map { ["CLUSTER", "COUNTKEYSINSLOT", "\($0)"] }, to: source)
        for (slot, keyCount) in zip(slots, keyCounts) where keyCount.integer != 0 {
            try await moveKeys(of: slot, from: source, to: target)
        }
        try await setSlots(target, "NODE", target.id)
        // Ignore the error: the source also learns of the move from the target. Once it has lost its last slot, it is
        // no longer a primary and rejects the command.
        try? await setSlots(source, "NODE", target.id)
    }

    // MARK: Servers

    /// Adds a server with as many replicas as the others have, and moves these hash slots to it.
    package func join(taking slots: [HashSlot]) async throws {
        let existing = members[0]
        try await addServer(arguments)
        let joined = members[members.count - 1]
        addedShard = (joined, [])
        try await meet(joined, at: existing)
        for _ in 0..<replicas {
            try await addServer(arguments)
            let replica = members[members.count - 1]
            addedShard?.replicas.append(replica)
            try await meet(replica, at: existing)
            try await replicate(replica, of: joined)
        }
        for (source, ownSlots) in try await slotsByOwner(slots) { try await move(ownSlots, from: source, to: [joined]) }
        try await waitUntilHealthy()
    }

    /// Moves the hash slots of the joined server to the others, and removes it and its replicas.
    package func removeAddedShard() async throws {
        guard let (leaving, replicas) = addedShard else { return }
        let others = try await primaries().filter { $0.id != leaving.id }
        try await move(slots(of: leaving), from: leaving, to: others)
        for member in replicas + [leaving] {
            try await forget(member)
            await member.server.remove()
        }
        addedShard = nil
        try await waitUntilHealthy()
    }

    /// Moves the hash slots of a primary to the others, and removes it. Its replicas stay and replicate another
    /// primary.
    package func leave(serverIndex: Int) async throws {
        let primaries = try await primaries()
        let leaving = primaries[serverIndex % primaries.count]
        let ownSlots = try await slots(of: leaving)
        let replicaIDs = try await nodes().filter { $0.primaryID == leaving.id }.map(\.id)
        removedShard = (leaving.server, ownSlots, replicaIDs)
        let others = primaries.filter { $0.id != leaving.id }
        try await move(ownSlots, from: leaving, to: others)
        for replica in members where replicaIDs.contains(replica.id) { try await replicate(replica, of: others[0]) }
        try await forget(leaving)
        try await waitUntilHealthy()
    }

    /// Adds the removed primary again, and returns its replicas and its hash slots to it.
    package func restoreRemovedShard() async throws {
        guard let (server, slots, replicaIDs) = removedShard else { return }
        // Reset the server, because the others would ignore its old ID for a minute.
        _ = try await server.ask(["FLUSHALL"])
        _ = try await server.ask(["CLUSTER", "RESET", "HARD"])
        let former = Member(server: server, id: try await server.ask(["CLUSTER", "MYID"]).text ?? "")
        let existing = members[0]
        members.append(former)
        removedShard = nil
        try await meet(former, at: existing)
        for replica in members where replicaIDs.contains(replica.id) { try await replicate(replica, of: former) }
        for (source, ownSlots) in try await slotsByOwner(slots) { try await move(ownSlots, from: source, to: [former]) }
        try await waitUntilHealthy()
    }

    /// Introduces a server to the cluster, and waits until all servers know each other.
    private func meet(_ member: Member, at existing: Member) async throws {
        _ = try await requireSuccess(member, ["CLUSTER", "MEET", "127.0.0.1", "\(existing.server.port ?? 0)"])
        try await eventually(within: Self.recoveryTimeout, "all servers of the cluster know each other") {
            for member in members {
                let nodes = try await nodes(at: member)
                guard nodes.count == members.count, !nodes.contains(where: \.isHandshake) else { return false }
            }
            // A new server refuses all commands for some time. Until then, no slots can be moved to it.
            return try await member.server.ask(["CLUSTER", "INFO"]).text?.contains("cluster_state:ok") ?? false
        }
    }

    /// Makes a server a replica, and waits until it has a connection to its primary.
    private func replicate(_ replica: Member, of primary: Member) async throws {
        try await eventually(within: Self.recoveryTimeout, "a replica follows its primary") {
            let isAccepted = try await replica.server.ask(["CLUSTER", "REPLICATE", primary.id]).text == "OK"
            let report = try await replica.server.ask(["INFO", "replication"]).text ?? ""
            return isAccepted && report.contains("master_port:\(primary.server.port ?? 0)")
                && report.contains("master_link_status:up")
        }
    }

    /// Removes a server from the cluster.
    private func forget(_ leaving: Member) async throws {
        members.removeAll { $0.id == leaving.id }
        // A server without slots has already become a replica of another.
        _ = try await requireSuccess(leaving, ["CLUSTER", "RESET", "SOFT"])
        for member in members { _ = try await requireSuccess(member, ["CLUSTER", "FORGET", leaving.id]) }
    }

    // MARK: State of the cluster

    /// A line of `CLUSTER NODES`.
    struct Node {
        var id: String
        /// The ID of the node's primary; `nil` for a primary.
        var primaryID: String?
        var isHandshake: Bool
        var slots: [ClosedRange<Int64>]
    }

    /// Returns the nodes as a running server lists them.
    private func nodes(excluding excluded: Member? = nil) async throws -> [Node] {
        for member in members where member.id != excluded?.id {
            guard await member.server.processID != nil else { continue }
            return try await nodes(at: member)
        }
        throw RedisServerError(reason: "no server of the cluster is running", log: await logs)
    }

    /// Returns the nodes as this server lists them.
    private func nodes(at member: Member) async throws -> [Node] {
        let nodeLines = try await requireSuccess(member, ["CLUSTER", "NODES"]).text ?? ""
        return nodeLines.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count >= 8 else { return nil }
            let slots = words.dropFirst(8).filter { !$0.hasPrefix("[") }.compactMap { word -> ClosedRange<Int64>? in
                let ends = word.split(separator: "-").compactMap { Int64($0) }
                guard let first = ends.first, let last = ends.last else { return nil }
                return first...last
            }
            return Node(
                id: String(words[0]), primaryID: words[3] == "-" ? nil : String(words[3]),
                isHandshake: words[2].contains("handshake"),
                slots: slots)
        }
    }

    private func slots(of member: Member) async throws -> [HashSlot] {
        try await nodes(at: member).first { $0.id == member.id }?.slots.flatMap { $0 }.compactMap { HashSlot($0) } ?? []
    }

    /// Returns the servers that serve these hash slots, each with its part of them.
    private func slotsByOwner(_ slots: [HashSlot]) async throws -> [(Member, [HashSlot])] {
        let nodes = try await nodes()
        return members.compactMap { member in
            let ranges = nodes.first { $0.id == member.id }?.slots ?? []
            let ownSlots = slots.filter { slot in ranges.contains { $0.contains(Int64(slot.number)) } }
            return ownSlots.isEmpty ? nil : (member, ownSlots)
        }
    }

    /// Sends many commands concurrently and returns their replies in order.
    @discardableResult
    private func sendAll(_ commands: [[String]], to member: Member) async throws -> [RedisReply] {
        let client = RedisClient(configuration: member.server.configuration)
        try await client.connect()
        return try await withCleanup {
            try await withThrowingTaskGroup(of: (Int, RedisReply).self) { group in
                for (index, words) in commands.enumerated() {
                    group.addTask { (index, try await client.send(AnyCommand(words))) }
                }
                var replies = [RedisReply](repeating: .null, count: commands.count)
                for try await (index, reply) in group {
                    if case .error(let error) = reply {
                        throw RedisServerError(
                            reason: "\(commands[index].joined(separator: " ")): \(error)", log: await logs)
                    }
                    replies[index] = reply
                }
                return replies
            }
        } finally: {
            await client.close()
        }
    }
}

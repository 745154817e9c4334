internal import Glibc
internal import InterlockCore
package import RedisClient

/// The changes of a cluster: failovers, moves of hash slots, and servers that join or leave.
extension ClusterFleet {
    // MARK: Failovers

    /// Takes a primary of the cluster down.
    /// - Parameters:
    ///   - loss: the way in which the primary is lost.
    ///   - serverIndex: the index of the primary among those that serve hash slots, modulo their number.
    package func losePrimary(_ loss: PrimaryLoss, serverIndex: Int) async throws {
        var found: (primary: Member, replica: Member)?
        // After a recent promotion or demotion, the servers learn of it one by one.
        try await eventually(within: Self.recoveryTimeout, "the other servers list a replica of the primary") {
            let lines = try await nodes()
            let primaries = members.filter { member in lines.contains { $0.id == member.id && !$0.slots.isEmpty } }
            guard !primaries.isEmpty else { return false }
            let primary = primaries[serverIndex % primaries.count]
            let replica = members.first { member in lines.contains { $0.id == member.id && $0.primary == primary.id } }
            found = replica.map { (primary, $0) }
            return found != nil
        }
        guard let (primary, replica) = found else { return }
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
                let lines = try await nodes(excluding: primary)
                return lines.allSatisfy { $0.id != primary.id || $0.slots.isEmpty }
                    && lines.reduce(0) { $0 + ($1.slots.map(\.count).reduce(0, +)) } == HashSlot.count
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

    /// Moves hash slots one at a time, as `redis-cli --cluster reshard` does. Meanwhile, servers answer commands
    /// on a migrating slot with `ASK` or `TRYAGAIN`.
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
        let lines = try await nodes()
        return members.filter { member in lines.contains { $0.id == member.id && !$0.slots.isEmpty } }
    }

    /// Moves hash slots to the targets in rotation, in batches, so that no slot is migrating for long.
    private func move(_ slots: [HashSlot], from source: Member, to targets: [Member]) async throws {
        let batch = 32
        for (number, start) in stride(from: 0, to: slots.count, by: batch).enumerated() {
            try await move(
                Array(slots[start..<min(start + batch, slots.count)]), from: source, to: targets[number % targets.count])
        }
    }

    private func move(_ slots: [HashSlot], from source: Member, to target: Member) async throws {
        func set(_ member: Member, _ words: String...) async throws {
            try await all(slots.map { ["CLUSTER", "SETSLOT", "\($0)"] + words }, at: member)
        }
        try await set(target, "IMPORTING", source.id)
        try await set(source, "MIGRATING", target.id)
        let counts = try await all(slots.map { ["CLUSTER", "COUNTKEYSINSLOT", "\($0)"] }, at: source)
        for (slot, count) in zip(slots, counts) where count.integer != 0 {
            try await moveKeys(of: slot, from: source, to: target)
        }
        try await set(target, "NODE", target.id)
        // This may fail: the source also learns of the move from the target, and once it has lost its last slot, it is
        // no longer a primary and rejects the command.
        try? await set(source, "NODE", target.id)
    }

    // MARK: Servers

    /// Adds a server with as many replicas as the others have, and moves these hash slots to it.
    package func join(taking slots: [HashSlot]) async throws {
        let known = members[0]
        try await addServer(arguments)
        let joined = members[members.count - 1]
        addedShard = (joined, [])
        try await meet(joined, at: known)
        for _ in 0..<replicas {
            try await addServer(arguments)
            let replica = members[members.count - 1]
            addedShard?.replicas.append(replica)
            try await meet(replica, at: known)
            try await replicate(replica, of: joined)
        }
        for (source, own) in try await owners(of: slots) { try await move(own, from: source, to: [joined]) }
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
        let replicas = try await nodes().filter { $0.primary == leaving.id }.map(\.id)
        removedShard = (leaving.server, ownSlots, replicas)
        let others = primaries.filter { $0.id != leaving.id }
        try await move(ownSlots, from: leaving, to: others)
        for replica in members where replicas.contains(replica.id) { try await replicate(replica, of: others[0]) }
        try await forget(leaving)
        try await waitUntilHealthy()
    }

    /// Adds the removed primary again, and returns its replicas and its hash slots to it.
    package func restoreRemovedShard() async throws {
        guard let (server, slots, replicas) = removedShard else { return }
        // Reset the server, because the others would ignore it under its old ID for a minute.
        _ = try await server.ask(["FLUSHALL"])
        _ = try await server.ask(["CLUSTER", "RESET", "HARD"])
        let former = Member(server: server, id: try await server.ask(["CLUSTER", "MYID"]).text ?? "")
        let known = members[0]
        members.append(former)
        removedShard = nil
        try await meet(former, at: known)
        for replica in members where replicas.contains(replica.id) { try await replicate(replica, of: former) }
        for (source, own) in try await owners(of: slots) { try await move(own, from: source, to: [former]) }
        try await waitUntilHealthy()
    }

    private func meet(_ member: Member, at known: Member) async throws {
        _ = try await requireSuccess(member, ["CLUSTER", "MEET", "127.0.0.1", "\(known.server.port ?? 0)"])
        try await eventually(within: Self.recoveryTimeout, "all servers of the cluster know each other") {
            for member in members {
                let lines = try await nodes(at: member)
                guard lines.count == members.count, !lines.contains(where: \.isHandshake) else { return false }
            }
            // A new server refuses all commands for some time, and slots cannot be moved to it before.
            return try await member.server.ask(["CLUSTER", "INFO"]).text?.contains("cluster_state:ok") ?? false
        }
    }

    private func replicate(_ replica: Member, of primary: Member) async throws {
        try await eventually(within: Self.recoveryTimeout, "a replica follows its primary") {
            let isAccepted = try await replica.server.ask(["CLUSTER", "REPLICATE", primary.id]).text == "OK"
            let report = try await replica.server.ask(["INFO", "replication"]).text ?? ""
            return isAccepted && report.contains("master_port:\(primary.server.port ?? 0)")
                && report.contains("master_link_status:up")
        }
    }

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
        var primary: String?
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

    private func nodes(at member: Member) async throws -> [Node] {
        let text = try await requireSuccess(member, ["CLUSTER", "NODES"]).text ?? ""
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count >= 8 else { return nil }
            let slots = words.dropFirst(8).filter { !$0.hasPrefix("[") }.compactMap { word -> ClosedRange<Int64>? in
                let ends = word.split(separator: "-").compactMap { Int64($0) }
                guard let first = ends.first, let last = ends.last else { return nil }
                return first...last
            }
            return Node(
                id: String(words[0]), primary: words[3] == "-" ? nil : String(words[3]),
                isHandshake: words[2].contains("handshake"),
                slots: slots)
        }
    }

    private func slots(of member: Member) async throws -> [HashSlot] {
        try await nodes(at: member).first { $0.id == member.id }?.slots.flatMap { $0 }.compactMap { HashSlot($0) } ?? []
    }

    private func owners(of slots: [HashSlot]) async throws -> [(Member, [HashSlot])] {
        let lines = try await nodes()
        return members.compactMap { member in
            let ranges = lines.first { $0.id == member.id }?.slots ?? []
            let own = slots.filter { slot in ranges.contains { $0.contains(Int64(slot.number)) } }
            return own.isEmpty ? nil : (member, own)
        }
    }

    /// Sends many commands concurrently and returns their replies in order.
    @discardableResult
    private func all(_ commands: [[String]], at member: Member) async throws -> [RedisReply] {
        let client = RedisClient(configuration: member.server.configuration)
        try await client.connect()
        return try await attempt {
            try await withThrowingTaskGroup(of: (Int, RedisReply).self) { group in
                for (number, words) in commands.enumerated() {
                    group.addTask { (number, try await client.send(AnyCommand(words))) }
                }
                var replies = [RedisReply](repeating: .null, count: commands.count)
                for try await (number, reply) in group {
                    if case .error(let error) = reply {
                        throw RedisServerError(
                            reason: "\(commands[number].joined(separator: " ")): \(error)", log: await logs)
                    }
                    replies[number] = reply
                }
                return replies
            }
        } finally: {
            await client.close()
        }
    }
}

internal import InterlockCore
package import RedisClient

/// A Redis Cluster of real servers, in new directories and on free ports of 127.0.0.1. The servers end with this
/// process.
package actor ClusterFleet {
    /// A server of the cluster, and its node ID.
    package struct Member: Sendable {
        package let server: RedisServer
        package let id: String
    }

    /// The time without a reply after which the other servers consider a server to be down.
    package static let nodeTimeoutMilliseconds = 1000
    static let recoveryTimeout = Duration.seconds(60)

    /// The servers: first the initial primaries, then their replicas, one of each primary in turn.
    package internal(set) var members: [Member]
    /// The additional arguments of every server.
    let arguments: [String]
    /// The number of replicas of each primary.
    let replicas: Int
    var lostPrimary: (primary: Member, loss: PrimaryLoss)?
    /// The primary that joined, and its replicas.
    var addedShard: (primary: Member, replicas: [Member])?
    /// The primary that left, its former hash slots, and the node IDs of its former replicas.
    var removedShard: (server: RedisServer, slots: [HashSlot], replicaIDs: [String])?

    private init(members: [Member], replicas: Int, arguments: [String]) {
        self.members = members
        self.replicas = replicas
        self.arguments = arguments
    }

    /// Starts servers, joins them to a cluster, and waits until each of them reports that the cluster is complete.
    /// - Parameters:
    ///   - primaries: the number of primaries, which share the hash slots evenly.
    ///   - replicas: the number of replicas of each primary.
    ///   - arguments: additional arguments of every server.
    /// - Throws: `RedisServerError` or `DeadlineExceeded`, after ending everything that was started.
    package static func start(primaries: Int = 3, replicas: Int = 0, arguments: [String] = []) async throws -> ClusterFleet {
        let fleet = ClusterFleet(members: [], replicas: replicas, arguments: arguments)
        do {
            for _ in 0..<primaries * (1 + replicas) { try await fleet.addServer(arguments) }
            try await fleet.join(primaries: primaries)
            return fleet
        } catch {
            await fleet.remove()
            throw error
        }
    }

    /// Starts a cluster, runs `body`, and always ends the cluster. Prints all logs if `body` throws. See `start` for
    /// the parameters.
    package static func withFleet<Result>(
        primaries: Int = 3, replicas: Int = 0, arguments: [String] = [], _ body: (ClusterFleet) async throws -> Result
    ) async throws -> Result {
        let fleet = try await start(primaries: primaries, replicas: replicas, arguments: arguments)
        return try await withCleanup {
            try await body(fleet)
        } onError: { error in
            print("The logs of a cluster whose test failed with \(error):\n\(await fleet.logs)")
        } finally: {
            await fleet.remove()
        }
    }

    /// Starts a server that is not yet part of the cluster.
    func addServer(_ arguments: [String]) async throws {
        let baseArguments = [
            "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
            "--cluster-node-timeout", "\(Self.nodeTimeoutMilliseconds)",
            "--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0",
        ]
        let server = try await RedisServer.start(arguments: baseArguments + arguments)
        members.append(Member(server: server, id: try await server.ask(["CLUSTER", "MYID"]).text ?? ""))
    }

    /// Joins the servers to a cluster, and waits until it is complete.
    private func join(primaries primaryCount: Int) async throws {
        let slotCount = HashSlot.count
        for (index, member) in members.enumerated() {
            _ = try await requireSuccess(member, ["CLUSTER", "SET-CONFIG-EPOCH", "\(index + 1)"])
            guard index < primaryCount else { continue }
            let slots = (slotCount * index / primaryCount)..<(slotCount * (index + 1) / primaryCount)
            _ = try await requireSuccess(member, ["CLUSTER", "ADDSLOTS"] + slots.map { "\($0)" })
        }
        for member in members.dropFirst() {
            _ = try await requireSuccess(members[0], ["CLUSTER", "MEET", "127.0.0.1", "\(member.server.port ?? 0)"])
        }
        for (index, member) in members.enumerated().dropFirst(primaryCount) {
            let primary = members[index % primaryCount]
            try await eventually(within: Self.recoveryTimeout, "a replica knows its primary") {
                try await member.server.ask(["CLUSTER", "REPLICATE", primary.id]).text == "OK"
            }
        }
        try await waitUntilHealthy()
    }

    /// Sends a command and returns the reply.
    /// - Throws: `RedisServerError` if the reply is an error.
    func requireSuccess(_ member: Member, _ words: [String]) async throws -> RedisReply {
        let reply = try await member.server.ask(words)
        guard case .error(let error) = reply else { return reply }
        throw RedisServerError(reason: "\(words.prefix(3).joined(separator: " ")): \(error)", log: await logs)
    }

    /// Waits until every running server knows all the others, and all hash slots are served.
    package func waitUntilHealthy() async throws {
        try await eventually(within: Self.recoveryTimeout, "the cluster is complete") {
            for member in members where await member.server.processID != nil {
                let info = (try? await member.server.ask(["CLUSTER", "INFO"]))?.text ?? ""
                guard info.contains("cluster_state:ok"), info.contains("cluster_slots_ok:\(HashSlot.count)"),
                    info.contains("cluster_known_nodes:\(members.count)")
                else { return false }
                let replication = (try? await member.server.ask(["INFO", "replication"]))?.text ?? ""
                guard !replication.contains("master_link_status:down") else { return false }
            }
            return true
        }
    }

    /// Ends all servers and deletes their directories.
    package func remove() async {
        for member in members { await member.server.remove() }
        await removedShard?.server.remove()
        for member in addedShard.map({ $0.replicas + [$0.primary] }) ?? [] { await member.server.remove() }
    }

    /// The end of each server's log.
    package var logs: String {
        get async {
            var logs = ""
            for member in members {
                logs += "redis-server at \(member.server.port ?? 0):\n\(await member.server.log.suffix(1 << 13))\n"
            }
            return logs
        }
    }

    /// The URL for a sidecar, `redis+cluster://…`.
    package var url: String {
        "redis+cluster://" + members.map { "127.0.0.1:\($0.server.port ?? 0)" }.joined(separator: ",")
    }

    // MARK: Slots

    /// Returns the server that serves a hash slot, as reported by a running server.
    package func owner(of slot: HashSlot) async throws -> Member {
        for member in members where await member.server.processID != nil {
            guard let ranges = try? await member.server.ask(["CLUSTER", "SLOTS"]).array else { continue }
            for range in ranges {
                guard let parts = range.array, parts.count >= 3, let first = parts[0].integer, let last = parts[1].integer,
                    (first...last).contains(Int64(slot.number)), let port = parts[2].array?[1].integer
                else { continue }
                if let owner = members.first(where: { $0.server.port.map { Int64($0) } == port }) { return owner }
            }
        }
        throw RedisServerError(reason: "no server serves hash slot \(slot)", log: await logs)
    }

    /// Starts to move a hash slot. Until `finishMove`, the servers reply to commands on it with `ASK` or `TRYAGAIN`.
    package func beginMove(of slot: HashSlot, to target: Member) async throws {
        let source = try await owner(of: slot)
        _ = try await requireSuccess(target, ["CLUSTER", "SETSLOT", "\(slot)", "IMPORTING", source.id])
        _ = try await requireSuccess(source, ["CLUSTER", "SETSLOT", "\(slot)", "MIGRATING", target.id])
    }

    /// Moves the keys of the hash slot, and assigns it to the target at both servers.
    package func finishMove(of slot: HashSlot, to target: Member) async throws {
        let source = try await owner(of: slot)
        try await moveKeys(of: slot, from: source, to: target)
        for member in [target, source] {
            _ = try await requireSuccess(member, ["CLUSTER", "SETSLOT", "\(slot)", "NODE", target.id])
        }
    }

    /// Moves all keys of a hash slot, in batches.
    func moveKeys(of slot: HashSlot, from source: Member, to target: Member) async throws {
        while true {
            let keys =
                try await requireSuccess(source, ["CLUSTER", "GETKEYSINSLOT", "\(slot)", "100"]).array?.compactMap(\.text) ?? []
            guard !keys.isEmpty else { break }
            let words = ["MIGRATE", "127.0.0.1", "\(target.server.port ?? 0)", "", "0", "5000", "KEYS"] + keys
            _ = try await requireSuccess(source, words)
        }
    }
}

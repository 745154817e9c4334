enum ServerCommands {
    static let all: [Command] = [
        Command("time", 1, [.whileLoading]) { server, _ in
            .bulks([Bytes(server.microseconds / 1_000_000), Bytes(server.microseconds % 1_000_000)])
        },
        Command("info", -1, [.whileLoading]) { server, _ in .bulk(Bytes(info(of: server))) },
        Command("role", 1, [.noScript, .whileLoading]) { server, _ in role(of: server) },
        Command("wait", 3, [.noScript], .none, wait),
    ]

    private static func wait(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard !server.isReplica else {
            throw CommandError(
                "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is "
                    + "configured to be writable (which is not the default) writes to replicas are just local and are not "
                    + "propagated.")
        }
        let replicaCount = try call.integer(1)
        guard let timeoutMilliseconds = call[2].integer else {
            throw CommandError("ERR timeout is not an integer or out of range")
        }
        guard timeoutMilliseconds >= 0 else { throw CommandError("ERR timeout is negative") }
        guard let replication = server.replication else { return .integer(Int64(server.acknowledgingReplicaCount)) }
        let connection = call.connection
        let acknowledgedCount = replication.acknowledgingCount(connection.offset)
        guard acknowledgedCount < replicaCount else { return .integer(acknowledgedCount) }
        server.lastWaitNumber += 1
        let number = server.lastWaitNumber
        connection.wait(.init(number: number, replicas: replicaCount, offset: connection.offset))
        // A timeout of 0 means no limit. The cap prevents an overflow.
        if timeoutMilliseconds > 0 {
            server.schedule?(min(timeoutMilliseconds, 1 << 40) * 1000) { [weak server, weak connection] in
                guard let server, let connection else { return }
                server.waitTimedOut(number, of: connection)
            }
        }
        return .several([])
    }

    private static func role(of server: SimulatedServer) -> Reply {
        guard let replication = server.replication else {
            return server.condition == .readOnly
                ? .array([.bulk("slave"), .bulk("127.0.0.1"), .integer(6379), .bulk("connected"), .integer(0)])
                : .array([.bulk("master"), .integer(0), .array([])])
        }
        switch replication.role {
        case .replica(let primary):
            return .array([
                .bulk("slave"), .bulk(Bytes(primary.host)), .integer(Int64(primary.port)),
                .bulk(replication.isLinked ? "connected" : "connect"),
                .integer(replication.isLinked ? replication.offset : -1),
            ])
        case .primary:
            let replicas = replication.replicas.map { replica in
                Reply.bulks([
                    Bytes(replica.address.host), Bytes(String(replica.address.port)), Bytes(replica.offset),
                ])
            }
            return .array([.bulk("master"), .integer(replication.offset), .array(replicas)])
        }
    }

    /// Returns all sections, even if one was requested.
    private static func info(of server: SimulatedServer) -> String {
        let mode = server.cluster == nil ? "standalone" : "cluster"
        let lines = [
            "# Server", "redis_version:\(SimulatedServer.version)", "redis_mode:\(mode)",
            server.reportsRunID ? "run_id:\(server.runID)" : "", "",
            "# Clients", "connected_clients:\(server.connections.count)", "",
            "# Memory", "maxmemory_policy:noeviction", "",
            "# Persistence", "loading:\(server.condition == .loading ? 1 : 0)", "",
        ]
        let keyCount = server.keyspace.count
        let cluster = server.cluster == nil ? [] : ["# Cluster", "cluster_enabled:1", ""]
        let keyspace = ["# Keyspace"] + (keyCount == 0 ? [] : ["db0:keys=\(keyCount)"]) + [""]
        return (lines + replicationLines(of: server) + cluster + keyspace).joined(separator: "\r\n")
    }

    private static func replicationLines(of server: SimulatedServer) -> [String] {
        var lines = ["# Replication", "role:\(server.isReplica ? "slave" : "master")"]
        if let replication = server.replication {
            switch replication.role {
            case .replica(let primary):
                lines += [
                    "master_host:\(primary.host)", "master_port:\(primary.port)",
                    "master_link_status:\(replication.isLinked ? "up" : "down")", "slave_repl_offset:\(replication.offset)",
                ]
            case .primary:
                lines.append("connected_slaves:\(replication.replicas.count)")
                for (index, replica) in replication.replicas.enumerated() {
                    let address = "ip=\(replica.address.host),port=\(replica.address.port)"
                    lines.append("slave\(index):\(address),state=online,offset=\(replica.offset),lag=0")
                }
                lines.append("master_repl_offset:\(replication.offset)")
            }
        }
        return lines + [""]
    }
}

extension CommandTable {
    static let all = CommandTable(
        ConnectionCommands.all + ServerCommands.all + KeyCommands.all + StringCommands.all + HashCommands.all
            + SortedSetCommands.all + StreamCommands.all + SubscriptionCommands.all + ScriptCommands.all
            + ClusterCommands.all)
}

extension SimulatedServer {
    /// Creates a server with all commands in this directory.
    ///
    /// - Parameter now: the server's wall clock, as Unix time in microseconds. It may jump.
    package convenience init(now: @escaping () -> Int64) {
        self.init(commands: .all, now: now)
    }
}

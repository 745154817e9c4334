enum ServerCommands {
    static let all: [Command] = [
        Command("time", 1, [.whileLoading]) { server, _ in
            .bulks([Bytes(server.microseconds / 1_000_000), Bytes(server.microseconds % 1_000_000)])
        },
        Command("info", -1, [.whileLoading]) { server, _ in .bulk(Bytes(info(of: server))) },
        Command("role", 1, [.noScript, .whileLoading]) { server, _ in
            server.condition == .readOnly
                ? .array([.bulk("slave"), .bulk("127.0.0.1"), .integer(6379), .bulk("connected"), .integer(0)])
                : .array([.bulk("master"), .integer(0), .array([])])
        },
        Command("wait", 3, [.noScript], .none, wait),
    ]

    private static func wait(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard server.condition != .readOnly else {
            throw CommandError(
                "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is "
                    + "configured to be writable (which is not the default) writes to replicas are just local and are not "
                    + "propagated.")
        }
        _ = try call.integer(1)
        guard let timeout = call[2].integer else { throw CommandError("ERR timeout is not an integer or out of range") }
        guard timeout >= 0 else { throw CommandError("ERR timeout is negative") }
        return .integer(Int64(server.replicasAcknowledging))
    }

    /// All sections, whatever was asked for.
    private static func info(of server: SimulatedServer) -> String {
        let lines = [
            "# Server", "redis_version:\(SimulatedServer.version)", "redis_mode:standalone", "",
            "# Clients", "connected_clients:\(server.connections.count)", "",
            "# Memory", "maxmemory_policy:noeviction", "",
            "# Persistence", "loading:\(server.condition == .loading ? 1 : 0)", "",
            "# Replication", "role:\(server.condition == .readOnly ? "slave" : "master")", "",
            "# Keyspace",
        ]
        let keys = server.keyspace.count
        return (lines + (keys == 0 ? [] : ["db0:keys=\(keys)"]) + [""]).joined(separator: "\r\n")
    }
}

extension CommandTable {
    static let all = CommandTable(
        ConnectionCommands.all + ServerCommands.all + KeyCommands.all + StringCommands.all + HashCommands.all
            + SortedSetCommands.all + StreamCommands.all + SubscriptionCommands.all + ScriptCommands.all)
}

extension SimulatedServer {
    /// A server with every command in this folder.
    /// - Parameter now: the server's wall clock, in microseconds of the Unix epoch. It may jump.
    package convenience init(now: @escaping () -> Int64) {
        self.init(commands: .all, now: now)
    }
}

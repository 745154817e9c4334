enum ConnectionCommands {
    static let all: [Command] = [
        Command("ping", -1, [.whileSubscribed], .none, ping),
        Command("echo", 2, [.whileLoading]) { _, call in .bulk(call[1]) },
        // Any password is accepted.
        Command("auth", -2, [.noScript, .whileLoading, .whileBusy]) { _, _ in .ok },
        Command("hello", -1, [.noScript, .whileLoading, .whileBusy], .none, hello),
        Command("select", 2, [.whileLoading]) { (server, call) throws(CommandError) in
            guard try call.integer(1) == 0 else {
                throw CommandError(
                    server.cluster == nil ? "ERR DB index is out of range" : "ERR SELECT is not allowed in cluster mode")
            }
            return .ok
        },
        Command("quit", -1, [.noScript, .whileLoading, .whileBusy, .whileSubscribed]) { _, call in
            call.connection.closeAfterReply()
            return .ok
        },
        Command("client|id", 2, [.noScript, .whileLoading]) { _, call in .integer(call.connection.id) },
        Command("client|setname", 3, [.noScript, .whileLoading]) { (_, call) throws(CommandError) in
            guard call[2].storage.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                throw CommandError("ERR Client names cannot contain spaces, newlines or special characters.")
            }
            call.connection.name = call[2]
            return .ok
        },
        Command("client|getname", 2, [.noScript, .whileLoading]) { _, call in
            call.connection.name.count == 0 ? .null : .bulk(call.connection.name)
        },
        Command("client|tracking", -3, [.noScript, .whileLoading], .none, tracking),
    ]

    private static func ping(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard call.count <= 2 else { throw .wrongNumberOfArguments("ping") }
        if call.connection.isSubscribed { return .bulks(["pong", call.count == 2 ? call[1] : ""]) }
        return call.count == 2 ? .bulk(call[1]) : .status("PONG")
    }

    /// Supports only RESP2, and no authentication.
    private static func hello(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        guard call.count == 1 || (call.count == 2 && call[1].isWord("2")) else {
            throw CommandError("NOPROTO unsupported protocol version")
        }
        let mode = server.cluster == nil ? "standalone" : "cluster"
        return .array([
            .bulk("server"), .bulk("redis"), .bulk("version"), .bulk(Bytes(SimulatedServer.version)), .bulk("proto"), .integer(2),
            .bulk("id"), .integer(call.connection.id), .bulk("mode"), .bulk(Bytes(mode)), .bulk("role"),
            .bulk(server.isReplica ? "replica" : "master"), .bulk("modules"), .array([]),
        ])
    }

    private static func tracking(_ server: SimulatedServer, _ call: Invocation) throws(CommandError) -> Reply {
        var redirect: Int64?
        var ignoresOwnChanges = false
        var index = 3
        while index < call.count {
            if call[index].isWord("redirect"), index + 1 < call.count {
                guard redirect == nil else {
                    throw CommandError("ERR A client can only redirect to a single other client")
                }
                index += 1
                let target = try call.integer(index)
                guard server.connection(target) != nil else {
                    throw CommandError("ERR The client ID you want redirect to does not exist")
                }
                redirect = target
            } else if call[index].isWord("noloop") {
                ignoresOwnChanges = true
            } else {
                throw .syntax
            }
            index += 1
        }
        if call[2].isWord("on") {
            call.connection.tracking = .init(redirect: redirect, ignoresOwnChanges: ignoresOwnChanges)
        } else if call[2].isWord("off") {
            call.connection.tracking = nil
        } else {
            throw .syntax
        }
        return .ok
    }
}

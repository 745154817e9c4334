enum ScriptCommands {
    static let all: [Command] = [
        Command("eval", -3, [.noScript], .counted) { (server, call) throws(CommandError) in
            try run(server, call) { (scripts) throws(CommandError) in try scripts.load(call[1]) }
        },
        Command("evalsha", -3, [.noScript], .counted) { (server, call) throws(CommandError) in
            try run(server, call) { (scripts) throws(CommandError) in
                guard let script = scripts[call[1]] else { throw .noScript }
                return script
            }
        },
        Command("script|load", 3, [.noScript]) { (server, call) throws(CommandError) in
            .bulk(try server.scripts.load(call[2]).digest)
        },
        Command("script|exists", -3, [.noScript]) { server, call in
            .array(call.arguments.dropFirst(2).map { .boolean(server.scripts[$0] != nil) })
        },
        Command("script|flush", -2, [.noScript]) { (server, call) throws(CommandError) in
            guard call.count == 2 || (call.count == 3 && (call[2].isWord("sync") || call[2].isWord("async"))) else {
                throw CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
            }
            server.flushScripts()
            return .ok
        },
    ]

    private static func run(
        _ server: SimulatedServer, _ call: Invocation,
        _ find: (ScriptEngine) throws(CommandError) -> ScriptEngine.Script
    ) throws(CommandError) -> Reply {
        let count = try call.integer(2)
        guard count <= call.count - 3 else {
            throw CommandError("ERR Number of keys can't be greater than number of args")
        }
        guard count >= 0 else { throw CommandError("ERR Number of keys can't be negative") }
        let script = try find(server.scripts)
        return server.scripts.run(
            script, keys: call.arguments[3..<3 + Int(count)], arguments: call.arguments[(3 + Int(count))...], for: call)
    }
}

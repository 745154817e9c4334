enum SentinelCommands {
    static let all: [Command] = [
        Command("sentinel|get-master-addr-by-name", 3, [.noScript]) { server, call in
            guard let state = sentinelState(of: call[2], at: server) else { return .null }
            return .bulks([Bytes(state.primary.host), Bytes(String(state.primary.port))])
        },
        Command("sentinel|master", 3, [.noScript]) { (server, call) throws(CommandError) in
            guard let state = sentinelState(of: call[2], at: server) else {
                throw CommandError("ERR No such master with that name")
            }
            return .bulks([
                "name", Bytes(state.name), "ip", Bytes(state.primary.host), "port", Bytes(String(state.primary.port)),
                "flags", "master", "config-epoch", Bytes(state.epoch),
            ])
        },
        Command("role", 1, [.noScript]) { server, _ in
            .array([.bulk("sentinel"), .bulks((server.sentinel.map { [Bytes($0.name)] }) ?? [])])
        },
    ]

    private static func sentinelState(of name: Bytes, at server: SimulatedServer) -> SentinelState? {
        server.sentinel.flatMap { Bytes($0.name) == name ? $0 : nil }
    }
}

extension CommandTable {
    static let sentinel = CommandTable(ConnectionCommands.all + SubscriptionCommands.all + SentinelCommands.all)
}

extension SimulatedServer {
    /// Creates a Sentinel that monitors one primary.
    package convenience init(sentinel state: SentinelState, now: @escaping () -> Int64) {
        self.init(commands: .sentinel, now: now)
        sentinel = state
    }

    /// Publishes a message to all subscribers of a channel.
    package func publish(_ message: String, on channel: String) {
        _ = subscriptions.publish(Bytes(message), on: Bytes(channel), from: self)
        flushOutput()
    }
}

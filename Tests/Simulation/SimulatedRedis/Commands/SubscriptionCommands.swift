enum SubscriptionCommands {
    static let flags: Command.Flags = [.noScript, .whileLoading, .whileSubscribed]

    static let all: [Command] = [
        Command("publish", 3, [.whileLoading]) { server, call in
            .integer(Int64(server.publish(call[2], on: call[1])))
        },
        Command("subscribe", -2, flags) { server, call in
            .several(
                call.arguments.dropFirst().map { channel in
                    server.subscriptions.add(call.connection, to: channel)
                    return confirmation("subscribe", .bulk(channel), server, call)
                })
        },
        Command("psubscribe", -2, flags) { server, call in
            .several(
                call.arguments.dropFirst().map { pattern in
                    server.subscriptions.add(call.connection, toPattern: GlobPattern(bytes: pattern))
                    return confirmation("psubscribe", .bulk(pattern), server, call)
                })
        },
        Command("unsubscribe", -1, flags) { server, call in
            let named = Array(call.arguments.dropFirst())
            let channels = named.isEmpty ? server.subscriptions.channels(of: call.connection) : named
            guard !channels.isEmpty else { return confirmation("unsubscribe", .null, server, call) }
            return .several(
                channels.map { channel in
                    server.subscriptions.remove(call.connection, from: channel)
                    return confirmation("unsubscribe", .bulk(channel), server, call)
                })
        },
        Command("punsubscribe", -1, flags) { server, call in
            let named = call.arguments.dropFirst().map { GlobPattern(bytes: $0) }
            let patterns = named.isEmpty ? server.subscriptions.patterns(of: call.connection) : named
            guard !patterns.isEmpty else { return confirmation("punsubscribe", .null, server, call) }
            return .several(
                patterns.map { pattern in
                    server.subscriptions.remove(call.connection, fromPattern: pattern)
                    return confirmation("punsubscribe", .bulk(pattern.bytes), server, call)
                })
        },
    ]

    private static func confirmation(
        _ kind: Bytes, _ subject: Reply, _ server: SimulatedServer, _ call: Invocation
    ) -> Reply {
        let count = server.subscriptions.count(of: call.connection)
        call.connection.isSubscribed = server.subscriptions.isListening(call.connection)
        return .array([.bulk(kind), subject, .integer(Int64(count))])
    }
}

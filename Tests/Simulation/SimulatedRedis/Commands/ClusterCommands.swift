enum ClusterCommands {
    static let all: [Command] = [
        Command("asking", 1, []) { (server, call) throws(CommandError) in
            _ = try member(of: server)
            call.connection.isAsking = true
            return .ok
        },
        Command("cluster|info", 2, []) { (server, _) throws(CommandError) in
            .bulk(Bytes(info(of: try member(of: server))))
        },
        Command("cluster|myid", 2, []) { (server, _) throws(CommandError) in .bulk(try member(of: server).myself.id) },
        Command("cluster|nodes", 2, []) { (server, _) throws(CommandError) in
            .bulk(Bytes(nodes(of: try member(of: server))))
        },
        Command("cluster|slots", 2, []) { (server, _) throws(CommandError) in slots(of: try member(of: server)) },
        Command("cluster|keyslot", 3, []) { (server, call) throws(CommandError) in
            _ = try member(of: server)
            return .integer(Int64(ClusterSlot.of(call[2])))
        },
        Command("ssubscribe", -2, SubscriptionCommands.flags, .channels) { server, call in
            .several(
                call.arguments.dropFirst().map { channel in
                    server.subscriptions.add(call.connection, toShard: channel)
                    return confirmation("ssubscribe", .bulk(channel), server, call)
                })
        },
        Command("sunsubscribe", -1, SubscriptionCommands.flags, .channels) { server, call in
            let named = Array(call.arguments.dropFirst())
            let channels = named.isEmpty ? server.subscriptions.shardChannels(of: call.connection) : named
            guard !channels.isEmpty else { return confirmation("sunsubscribe", .null, server, call) }
            return .several(
                channels.map { channel in
                    server.subscriptions.remove(call.connection, fromShard: channel)
                    return confirmation("sunsubscribe", .bulk(channel), server, call)
                })
        },
        Command("spublish", 3, [.whileLoading], .channel) { server, call in
            .integer(Int64(server.publishToShard(call[2], on: call[1])))
        },
    ]

    private static func member(of server: SimulatedServer) throws(CommandError) -> ClusterMember {
        guard let cluster = server.cluster else { throw CommandError("ERR This instance has cluster support disabled") }
        return cluster
    }

    private static func confirmation(
        _ kind: Bytes, _ subject: Reply, _ server: SimulatedServer, _ call: Invocation
    ) -> Reply {
        call.connection.isSubscribed = server.subscriptions.isListening(call.connection)
        let count = server.subscriptions.shardChannels(of: call.connection).count
        return .array([.bulk(kind), subject, .integer(Int64(count))])
    }

    private static func info(of member: ClusterMember) -> String {
        let assignedCount = member.assignedCount
        let failedCount = member.nodes.reduce(0) { $0 + ($1.isFailed ? member.count(of: $1.number) : 0) }
        let epoch = (member.myself.primary.flatMap { member.node($0) } ?? member.myself).epoch
        let lines = [
            "cluster_state:\(member.isServing ? "ok" : "fail")", "cluster_slots_assigned:\(assignedCount)",
            "cluster_slots_ok:\(assignedCount - failedCount)", "cluster_slots_pfail:0",
            "cluster_slots_fail:\(failedCount)",
            "cluster_known_nodes:\(member.nodes.count)", "cluster_size:\(member.primaries.count)",
            "cluster_current_epoch:\(member.currentEpoch)", "cluster_my_epoch:\(epoch)",
        ]
        return lines.map { "\($0)\r\n" }.joined()
    }

    /// Returns a line for each known server: its ID, address, flags, primary and epoch. All times are 0.
    private static func nodes(of member: ClusterMember) -> String {
        let ranges = member.ranges
        return member.nodes.map { node in
            let primary = node.primary.flatMap { member.node($0) }
            var flags = node.number == member.number ? ["myself"] : []
            flags.append(node.primary == nil ? "master" : "slave")
            if node.isFailed { flags.append("fail") }
            let slots = ranges.filter { $0.owner == node.number }.map { slots, _ in
                slots.count == 1 ? " \(slots.lowerBound)" : " \(slots.lowerBound)-\(slots.upperBound)"
            }
            return """
                \(node.id.text) \(node.address.host):\(node.address.port)@\(node.address.port + 10_000) \(flags.joined(separator: ",")) \
                \(primary.map { $0.id.text } ?? "-") 0 0 \((primary ?? node).epoch) connected\(slots.joined())\n
                """
        }.joined()
    }

    /// Returns each range's primary and those of its replicas that have not failed.
    private static func slots(of member: ClusterMember) -> Reply {
        func description(_ node: ClusterNode) -> Reply {
            .array([.bulk(Bytes(node.address.host)), .integer(Int64(node.address.port)), .bulk(node.id), .array([])])
        }
        return .array(
            member.ranges.compactMap { slots, owner in
                guard let primary = member.node(owner) else { return nil }
                let replicas = member.nodes.filter { $0.primary == owner && !$0.isFailed }
                return .array(
                    [.integer(Int64(slots.lowerBound)), .integer(Int64(slots.upperBound))]
                        + ([primary] + replicas).map { description($0) })
            })
    }
}

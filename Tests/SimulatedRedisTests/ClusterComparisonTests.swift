import SimulatedRedis
import Testing

/// Two servers of a cluster, with one hash slot that is migrating from the first to the second.
@Suite(.serialized, .requiresRedis7) struct ClusterComparisonTests {
    /// Keys in hash slot 3300, which is migrating. The first server has two of them.
    private static let present = "{b}1", alsoPresent = "{b}2", missing = "{b}3"

    /// Commands for the first server. It owns the hash slots of b (3300) and c (7365), and the other server owns that
    /// of d (11298). The hash slots of a (15495) and foo (12182) are unassigned.
    private static let atSource: [[String]] = [
        ["GET", present], ["GET", missing], ["MGET", present, alsoPresent], ["MGET", present, missing],
        ["MGET", missing, present], ["MGET", missing, missing],
        ["MGET", missing, "{b}4"], ["MGET", present, present], ["GET", "c"], ["GET", "d"], ["GET", "a"], ["MGET", present, "c"],
        ["MGET", "a", "c"], ["MGET", "d", "c"], ["DEL", missing], ["EXISTS", present, missing], ["SET", missing, "v"],
        ["INCR", present],
        ["HSET", "d", "f", "v"], ["PING"], ["DBSIZE"], ["TIME", "x"], ["GET"], ["NOSUCH", present],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", present],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", missing],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", "d"],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"],
        ["EVAL", "return redis.call('GET', KEYS[1])", "2", present, missing],
        ["EVAL", "return redis.call('GET', KEYS[1])", "2", present, "c"],
        ["EVAL", "return redis.call('GET', ARGV[1])", "1", present, "c"],
        ["EVAL", "return redis.call('GET', ARGV[1])", "1", present, "d"],
        ["EVAL", "return redis.call('GET', ARGV[1])", "1", present, "a"],
        ["EVAL", "return redis.call('GET', ARGV[1])", "1", present, missing],
        ["EVAL", "return redis.call('GET', ARGV[1])", "0", "d"],
        ["EVAL", "return redis.call('MGET', 'c', ARGV[1])", "0", present],
        ["EVAL", "return redis.pcall('SET', ARGV[1], 'v')", "0", "d"],
        ["EVAL", "return redis.pcall('MGET', 'c', ARGV[1])", "0", present],
        ["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], 'v')", "1", alsoPresent],
        ["EVAL", "return 1", "0"], ["EVAL", "return 1", "3", present], ["EVAL", "return 1", "x", present],
        ["EVAL", "return 1", "-1"],
        ["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "1", present],
        ["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "1", "d"],
        ["SELECT", "0"], ["SELECT", "1"], ["SELECT", "x"], ["CLUSTER"], ["CLUSTER", "NOSUCH"], ["CLUSTER", "MYID"],
        ["CLUSTER", "MYID", "x"], ["CLUSTER", "KEYSLOT", "{}a{b}"], ["CLUSTER", "KEYSLOT", "x{b}y"], ["CLUSTER", "KEYSLOT", ""],
        ["CLUSTER", "SLOTS"], ["ASKING", "x"], ["SPUBLISH", "d", "m"], ["SPUBLISH", missing, "m"], ["PUBLISH", "d", "m"],
        ["SSUBSCRIBE", "d"], ["SSUBSCRIBE", present, "c"], ["ROLE", "x"],
    ]

    /// Commands for the second server, each sent without and with `ASKING`.
    private static let atTarget: [[String]] = [
        ["GET", present], ["GET", missing], ["MGET", missing, missing], ["MGET", missing, "{b}4"], ["SET", missing, "v"],
        ["MGET", missing, "{b}4"],
        ["MGET", missing, missing], ["MGET", missing, "d"], ["GET", "d"], ["GET", "c"], ["NOSUCH"], ["GET"],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", missing],
        ["EVAL", "return redis.call('SET', KEYS[1], 'w')", "1", "{b}5"],
        ["EVAL", "return redis.call('MGET', KEYS[1], KEYS[2])", "2", missing, "{b}5"],
        ["EVAL", "return redis.call('MGET', KEYS[1], KEYS[2])", "2", missing, "{b}6"],
        ["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('GET', KEYS[1])", "1", missing],
        ["EVAL", "redis.call('DEL', KEYS[1]) return redis.call('MGET', KEYS[1], ARGV[1])", "1", missing, "{b}5"],
        ["EVAL", "return redis.call('GET', ARGV[1])", "0", "{b}5"],
    ]

    @Test("Redirections, refusals and scripts in a cluster behave as in Redis")
    func commands() async throws {
        let group = try await RedisGroup.start(
            2, arguments: ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "5000"])
        let members = (0..<2).map { ClusterMember(ClusterNode(number: $0, address: group.address($0), epoch: Int64($0 + 1))) }
        let ranges = [0...8191, 8192...12_000]
        for (index, server) in group.simulated.enumerated() {
            server.cluster = members[index]
            members[index].isServing = false
            members[index].assign(ranges[index], to: index)
            let range = ["\(ranges[index].lowerBound)", "\(ranges[index].upperBound)"]
            try group.sendToReal(["CLUSTER", "SET-CONFIG-EPOCH", "\(index + 1)"], at: index)
            try group.sendToReal(["CLUSTER", "ADDSLOTSRANGE"] + range, at: index)
        }
        let connections = try (0..<2).map { try group.connect(to: $0) }
        try compareUncoveredCluster(group, on: connections[0])
        for index in 0..<2 { try group.sendToReal(["CONFIG", "SET", "cluster-require-full-coverage", "no"], at: index) }
        try group.sendToReal(["CLUSTER", "MEET", "127.0.0.1", "\(group.address(1).port)"], at: 0)
        for index in 0..<2 {
            members[index].isServing = true
            members[index].learn(members[1 - index].myself)
            members[index].assign(ranges[1 - index], to: 1 - index)
            members[index].currentEpoch = 2
            try group.wait(for: "cluster_slots_assigned:12001", in: ["CLUSTER", "INFO"], at: index)
            try group.wait(for: "cluster_state:ok", in: ["CLUSTER", "INFO"], at: index)
            try group.wait(for: "cluster_size:2", in: ["CLUSTER", "INFO"], at: index)
        }
        try group.learnIDs()
        for key in [Self.present, Self.alsoPresent] { try group.compare(["SET", key, "1"], on: connections[0]) }
        try beginMove(group, members)
        for words in Self.atSource { try group.compare(words, on: connections[0]) }
        for words in Self.atTarget {
            try group.compare(words, on: connections[1])
            try group.compare(["ASKING"], on: connections[1])
            try group.compare(words, on: connections[1])
            // The previous command has consumed the `ASKING` flag.
            try group.compare(["GET", "{b}5"], on: connections[1])
        }
        for words in [["ASKING"], ["ASKING"], ["GET", Self.missing], ["ASKING"], ["PING"], ["GET", Self.missing]] {
            try group.compare(words, on: connections[1])
        }
        print("cluster: \(group.agreementCount) equal replies")
    }

    private func beginMove(_ group: RedisGroup, _ members: [ClusterMember]) throws {
        let ids = try (0..<2).map { try group.sendToReal(["CLUSTER", "MYID"], at: $0).text ?? "" }
        try group.sendToReal(["CLUSTER", "SETSLOT", "3300", "IMPORTING", ids[0]], at: 1)
        try group.sendToReal(["CLUSTER", "SETSLOT", "3300", "MIGRATING", ids[1]], at: 0)
        members[1].beginMove(of: 3300, from: 0)
        members[0].beginMove(of: 3300, to: 1)
    }

    /// Compares a server that requires full coverage while some hash slots have no owner.
    private func compareUncoveredCluster(_ group: RedisGroup, on connection: ComparedConnection) throws {
        try group.wait(for: "cluster_state:fail", in: ["CLUSTER", "INFO"], at: 0)
        for words in [
            ["GET", "b"], ["GET", "d"], ["MGET", "b", "c"], ["SET", "b", "v"], ["PING"],
            ["EVAL", "return redis.call('GET', KEYS[1])", "1", "b"], ["EVAL", "return redis.call('GET', 'b')", "0"],
            ["EVAL", "return redis.pcall('SET', 'd', 'v')", "0"], ["EVAL", "return 1", "0"], ["SPUBLISH", "b", "m"],
        ] {
            try group.compare(words, on: connection)
        }
    }

    @Test("A server outside a cluster refuses cluster commands as Redis does")
    func outsideCluster() throws {
        let comparison = try RedisComparison()
        let connection = try comparison.connect()
        for words in [["ASKING"], ["CLUSTER", "INFO"], ["CLUSTER", "SLOTS"], ["CLUSTER", "MYID"], ["CLUSTER", "NOSUCH"]] {
            try comparison.send(words.map { Array($0.utf8) }, on: connection)
        }
    }

    @Test("Shard channels are subscribed, served and unsubscribed as in Redis")
    func shardChannels() throws {
        let comparison = try RedisComparison()
        let publisher = try comparison.connect()
        let listener = try comparison.connect()
        try comparison.send(["SSUBSCRIBE", "a", "b"].map { Array($0.utf8) }, on: listener, replies: 2)
        try comparison.send("SUBSCRIBE", "c", on: listener)
        for channel in ["a", "b", "c"] {
            try comparison.send("SPUBLISH", channel, "to a shard", on: publisher)
            try comparison.send("PUBLISH", channel, "to all", on: publisher)
        }
        try comparison.compareMessages(to: listener)
        try comparison.send("SUNSUBSCRIBE", "b", on: listener)
        try comparison.send("UNSUBSCRIBE", on: listener)
        try comparison.send("SUNSUBSCRIBE", on: listener)
        try comparison.send("SUNSUBSCRIBE", on: listener)
        try comparison.send("GET", "k", on: listener)
    }
}

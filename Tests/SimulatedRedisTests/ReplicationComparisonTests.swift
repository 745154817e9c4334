import SimulatedRedis
import Testing

/// Compares a primary and its replica.
@Suite(.serialized, .requiresRedis7) struct ReplicationComparisonTests {
    @Test("A primary and its replica report their roles, wait and refuse commands as in Redis")
    func primaryAndReplicaReportRoles() async throws {
        let group = try await RedisGroup.start(2, arguments: ["--repl-diskless-sync-delay", "0"])
        let (primary, replica) = (group.simulated[0], group.simulated[1])
        let connections = try (0..<2).map { try group.connect(to: $0) }
        try group.sendToReal(["REPLICAOF", "127.0.0.1", "\(group.address(0).port)"], at: 1)
        try group.wait(for: "\"connected\"", in: ["ROLE"], at: 1)
        try group.wait(for: "state=online", in: ["INFO", "replication"], at: 0)
        primary.replication = Replication(role: .primary)
        replica.replication = Replication(role: .replica(of: group.address(0)))
        replica.load(primary.fullSync(for: group.address(1)))
        primary.onUpdate = { update in
            replica.apply(update)
            primary.acknowledge(update.offset, by: group.address(1))
        }
        for words in [
            ["SET", "k", "1"], ["INCR", "k"], ["HSET", "h", "a", "1"], ["ZADD", "z", "1", "m"], ["DEL", "h"],
            ["EVAL", "redis.call('SET', 'e', '1') return redis.call('INCR', 'e')", "0"], ["WAIT", "1", "0"], ["WAIT", "x", "0"],
            ["WAIT", "1", "-1"], ["WAIT", "1", "x"], ["SET", "p", "1", "PX", "100000"], ["WAIT", "1", "0"],
        ] {
            try group.compare(words, on: connections[0])
        }
        try group.compare(["WAIT", "2", "50"], on: connections[0], isTimed: true)
        for index in 0..<2 { try group.compare(["ROLE"], on: connections[index]) { group.hidingOffsets($0) } }
        for words in [
            ["GET", "k"], ["GET", "e"], ["EXISTS", "h", "p"], ["ZSCORE", "z", "m"], ["SET", "k", "2"], ["DEL", "none"],
            ["WAIT", "0", "0"], ["FLUSHALL"], ["PUBLISH", "c", "m"], ["EVAL", "return redis.call('GET', 'k')", "0"],
            ["EVAL", "return redis.call('SET', 'k', '3')", "0"], ["EVAL", "return redis.pcall('DEL', 'none')", "0"],
        ] {
            try group.compare(words, on: connections[1])
        }
        try becomeReplica(group, connections[0])
        print("replication: \(group.agreementCount) equal replies")
    }

    /// Turns the primary into a replica. A client that waits receives an error, and its connection is closed.
    private func becomeReplica(_ group: RedisGroup, _ connection: ComparedConnection) throws {
        let words = ["WAIT", "5", "0"].map { Array($0.utf8) }
        connection.send(words)
        try group.wait(for: "blocked_clients:1", in: ["INFO", "clients"], at: 0)
        try group.sendToReal(["REPLICAOF", "127.0.0.1", "\(group.address(1).port)"], at: 0)
        group.simulated[0].demote(to: group.address(1), closesConnections: false)
        try group.compareNext(on: connection)
    }

    @Test("Clients of a replica receive the messages and the invalidations of its primary")
    func messagesFromPrimary() {
        let primary = SimulatedServer { 1_700_000_000_000_000 }
        let replica = SimulatedServer { 1_700_000_000_000_000 }
        let address = ServerAddress(host: "replica")
        primary.replication = Replication(role: .primary)
        replica.replication = Replication(role: .replica(of: ServerAddress(host: "primary")))
        replica.load(primary.fullSync(for: address))
        primary.onUpdate = { replica.apply($0) }
        var output = ""
        let listener = replica.connect { output += String(decoding: $0, as: UTF8.self) }
        listener.receive("SUBSCRIBE", "__redis__:invalidate", "c")
        let reader = replica.connect { _ in }
        reader.receive("CLIENT", "TRACKING", "ON", "REDIRECT", "1", "NOLOOP")
        reader.receive("GET", "k")
        let writer = primary.connect { _ in }
        output = ""
        writer.receive("SET", "k", "1")
        #expect(output.contains("\r\nk\r\n"))
        writer.receive("PUBLISH", "c", "news")
        #expect(output.hasSuffix("news\r\n"))
        #expect(replica.replication?.offset == 2)
    }
}

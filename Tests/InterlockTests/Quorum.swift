import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOCore
import NIOPosix
import RedisClient

/// Coordinators whose locks are kept on three separate, real Redis servers.
struct Quorum {
    let servers: [RedisServer]
    let sidecars: [Coordinator]

    /// Runs `body` with `count` coordinators, each connected to all servers, and stops everything afterwards.
    static func run(of count: Int = 1, _ body: (Quorum) async throws -> Void) async throws {
        try await RedisServer.withServer(listener: .none) { main in
            try await withServers(3) { servers in
                var configuration = InterlockConfiguration(
                    redis: main.configuration, quorum: servers.map(\.configuration), host: "test")
                configuration.redis.commandTimeout = .seconds(2)
                for index in configuration.quorum.indices {
                    configuration.quorum[index].commandTimeout = .seconds(2)
                    configuration.quorum[index].connectTimeout = .seconds(2)
                }
                let group = MultiThreadedEventLoopGroup.singleton
                let sidecars = (0..<count).map { _ in
                    Coordinator(
                        configuration: configuration, eventLoop: group.next(),
                        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                }
                let quorum = Quorum(servers: servers, sidecars: sidecars)
                let result: Result<Void, any Error>
                do {
                    for sidecar in sidecars {
                        await sidecar.start()
                        await sidecar.waitUntilReady()
                        try await quorum.waitUntilEveryServerIsReached(by: sidecar)
                    }
                    // Messages without a subscriber are lost, so tests begin once all have subscribed.
                    let listening = ["PUBSUB", "NUMSUB", sidecars[0].keys.events]
                    try await eventually("every sidecar has subscribed") {
                        try await cli(main, listening).array?.last?.integer == Int64(count)
                    }
                    try await body(quorum)
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                for sidecar in sidecars { await sidecar.stop() }
                try result.get()
            }
        }
    }

    private static func withServers(
        _ count: Int, started: [RedisServer] = [], _ body: ([RedisServer]) async throws -> Void
    ) async throws {
        guard started.count < count else { return try await body(started) }
        try await RedisServer.withServer(listener: .none) { server in
            try await withServers(count, started: started + [server], body)
        }
    }

    /// Sends a command, given by its words, to one server and returns the reply.
    @discardableResult
    func cli(_ server: Int, _ arguments: String...) async throws -> RedisReply {
        try await Self.cli(servers[server], arguments)
    }

    private static func cli(_ server: RedisServer, _ arguments: [String]) async throws -> RedisReply {
        let client = RedisClient(configuration: server.configuration)
        let result: Result<RedisReply, any Error>
        do {
            try await client.connect()
            result = .success(try await client.send(AnyCommand(arguments)))
        } catch {
            result = .failure(error)
        }
        await client.close()
        return try result.get()
    }

    /// Returns the servers among `indices` that have the lock's key.
    func holders(of name: String, among indices: [Int] = [0, 1, 2]) async throws -> [Int] {
        var holders: [Int] = []
        for server in indices {
            let count = try await cli(server, "EXISTS", "interlock:lock:{\(name)}").integer
            if count == 1 { holders.append(server) }
        }
        return holders
    }

    /// Waits until the sidecar reaches all servers in `indices`, using the fact that an acquire with an explicit owner
    /// returns only once every connected server has answered.
    func waitUntilEveryServerIsReached(by sidecar: Coordinator, among indices: [Int] = [0, 1, 2]) async throws {
        let name = "reached-\(sidecar.id)"
        try await eventually("the sidecar reaches the servers \(indices)") {
            guard let lease = try? await sidecar.acquireLock(try LockRequest(name, ttl: 20_000, owner: "reaching"))
            else { return false }
            let reached = try await holders(of: name, among: indices)
            _ = try? await sidecar.releaseLock(try ResourceName(name), token: lease.token)
            return reached == indices
        }
    }

    /// Acquires the lock as soon as a majority is reachable.
    func eventuallyAcquire(_ request: LockRequest, through sidecar: Coordinator) async throws -> Lease {
        var granted: Lease?
        try await eventually("\(request.name) is granted") {
            granted = try? await sidecar.acquireLock(request)
            return granted != nil
        }
        guard let granted else { throw DeadlineExceeded(expectation: "\(request.name) is granted", limit: .zero) }
        return granted
    }
}

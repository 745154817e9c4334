import Hiredis
import NIOPosix

/// Runs `body` with a client, connected unless told otherwise, and closes it afterwards.
func withClient<Result>(
    _ configuration: RedisConfiguration,
    connects: Bool = true,
    _ body: (RedisClient) async throws -> Result
) async throws -> Result {
    let client = RedisClient(configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next())
    do {
        if connects { try await client.connect() }
        let result = try await body(client)
        await client.close()
        return result
    } catch {
        await client.close()
        throw error
    }
}

/// Why `operation` failed, when it did with a `RedisError`.
func failureCode(of operation: () async throws -> Void) async -> RedisError.Code? {
    do {
        try await operation()
        return nil
    } catch {
        return (error as? RedisError)?.code
    }
}

extension RedisClient {
    /// Sends a command by its words.
    func words(_ words: String..., timeout: Duration? = nil) async throws -> RedisReply {
        try await send(AnyCommand(words), timeout: timeout)
    }

    /// The number that the server knows this client's connection by: another number, another connection.
    func connectionNumber() async throws -> Int64? {
        try await words("CLIENT", "ID").integer
    }
}

import Hiredis

/// A connection to a sidecar, for as long as one command of the command line runs. The command line is a Redis client like
/// any other.
struct SidecarConnection: Sendable {
    let address: SidecarAddress
    private let client: RedisClient

    /// How long an answer may take beyond the wait that was asked for.
    private static let patience = Duration.seconds(5)

    /// Connects, runs `body`, and closes the connection whatever happens.
    /// - Throws: `Failure` when no sidecar answers or it refuses the login; whatever `body` throws.
    static func open<Result>(
        _ options: SidecarOptions, _ body: (SidecarConnection) async throws -> Result
    ) async throws -> Result {
        let target = try options.target()
        let connection = SidecarConnection(address: target.address, client: RedisClient(configuration: target.configuration))
        do {
            try await connection.connect()
            let result = try await body(connection)
            await connection.client.close()
            return result
        } catch {
            await connection.client.close()
            throw error
        }
    }

    /// Sends a command and waits for its reply.
    /// - Throws: `Failure`, which says what to do.
    func send<Command: SidecarCommand>(_ command: Command) async throws -> Command.Reply {
        do {
            return try await client.send(command, timeout: command.wait + Self.patience)
        } catch let error as RedisError {
            throw Failure(error, sending: command.purpose, to: address)
        }
    }

    private func connect() async throws {
        do {
            try await client.connect()
        } catch let error as RedisError {
            throw Failure(error, connectingTo: address)
        }
    }
}

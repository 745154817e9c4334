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

/// A command of a sidecar's RESP door.
protocol SidecarCommand: RedisCommand, Sendable where Reply: Sendable {
    /// How long the sidecar was asked to wait before it answers.
    var wait: Duration { get }
    /// What was asked, for messages: `lock acquire orders`.
    var purpose: String { get }
}

extension SidecarCommand {
    var wait: Duration { .zero }
}

/// The flat map that a sidecar answers with in RESP2: names and values by turns.
struct ReplyFields {
    private var values: [String: RedisReply] = [:]

    /// `nil` when the reply is none.
    init?(_ reply: RedisReply) {
        guard let elements = reply.array, elements.count.isMultiple(of: 2) else { return nil }
        for index in stride(from: 0, to: elements.count, by: 2) {
            guard let name = elements[index].text else { return nil }
            values[name] = elements[index + 1]
        }
    }

    func text(_ name: String) -> String? { values[name]?.text }

    func integer(_ name: String) -> Int64? { values[name]?.integer }

    /// Only numbers that JSON has.
    func number(_ name: String) -> Double? {
        text(name).flatMap(Double.init).flatMap { $0.isFinite ? $0 : nil }
    }
}

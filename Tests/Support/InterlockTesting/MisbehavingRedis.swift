internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix
package import RedisClient

/// A TCP server on 127.0.0.1 whose replies a test scripts: garbage, partial replies, or none.
///
/// Records the commands that it receives, so that a test can count them. Accepts at most 64 concurrent connections and
/// 100,000 commands, and closes the connections that exceed these limits.
package final class MisbehavingRedis: Sendable {
    private struct State {
        var commands: [ReceivedCommand] = []
        var connectionCount = 0
        var openChannels: [ObjectIdentifier: any Channel] = [:]
    }

    private static let connectionLimit = 64
    private static let commandLimit = 100_000

    private let answersLogin: Bool
    private let script: @Sendable (ReceivedCommand) -> ScriptedReply
    private let state = NIOLockedValueBox(State())
    private let listener = NIOLockedValueBox<(any Channel)?>(nil)
    /// The port, known before `withServer` calls its body.
    private let boundPort = NIOLockedValueBox(0)

    private init(answersLogin: Bool, script: @escaping @Sendable (ReceivedCommand) -> ScriptedReply) {
        self.answersLogin = answersLogin
        self.script = script
    }

    /// Runs `body` with a server that answers each command as `script` says, and closes the server afterwards.
    /// - Parameters:
    ///   - answersLogin: whether to answer the first `PING` of each connection without calling `script`. A client's
    ///     login ends with this command.
    ///   - script: the answer to a command. Called on the server's event loop.
    package static func withServer<Result>(
        answersLogin: Bool = true,
        script: @escaping @Sendable (ReceivedCommand) -> ScriptedReply,
        _ body: (MisbehavingRedis) async throws -> Result
    ) async throws -> Result {
        let server = MisbehavingRedis(answersLogin: answersLogin, script: script)
        try await server.listen()
        return try await withCleanup {
            try await body(server)
        } finally: {
            await server.close()
        }
    }

    package var port: Int { boundPort.withLockedValue { $0 } }

    /// `redis://127.0.0.1:PORT`.
    package var url: String { "redis://127.0.0.1:\(port)" }

    /// The configuration of a client of this server, with long timeouts like those of `RedisServer`.
    package var configuration: RedisConfiguration {
        var configuration = RedisConfiguration(address: .host("127.0.0.1", port: port))
        configuration.connectTimeout = .seconds(10)
        configuration.commandTimeout = .seconds(10)
        return configuration
    }

    /// The commands so far, in order of arrival, except logins that the server answered itself.
    package var commands: [ReceivedCommand] { state.withLockedValue { $0.commands } }

    /// The number of connections so far, including closed ones.
    package var connectionCount: Int { state.withLockedValue { $0.connectionCount } }

    private func listen() async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let connection = self.accept(channel) else { throw ChannelError.operationUnsupported }
                    try channel.pipeline.syncOperations.addHandlers(
                        ByteToMessageHandler(CommandDecoder()),
                        MisbehavingRedisHandler(connection: connection, answersLogin: self.answersLogin) {
                            self.reply(to: $0)
                        })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        boundPort.withLockedValue { $0 = channel.localAddress?.port ?? 0 }
        listener.withLockedValue { $0 = channel }
    }

    /// Records a new connection. Returns its number; `nil` if there are too many.
    private func accept(_ channel: any Channel) -> Int? {
        let number = state.withLockedValue { state -> Int? in
            guard state.openChannels.count < Self.connectionLimit else { return nil }
            state.openChannels[ObjectIdentifier(channel)] = channel
            state.connectionCount += 1
            return state.connectionCount - 1
        }
        channel.closeFuture.whenComplete { _ in
            self.state.withLockedValue { $0.openChannels[ObjectIdentifier(channel)] = nil }
        }
        return number
    }

    private func reply(to command: ReceivedCommand) -> ScriptedReply {
        let isWithinLimit = state.withLockedValue { state in
            guard state.commands.count < Self.commandLimit else { return false }
            state.commands.append(command)
            return true
        }
        return isWithinLimit ? script(command) : .close
    }

    private func close() async {
        let channel = listener.withLockedValue { $0.take() }
        // Closing fails if the listener is already closed, which is harmless.
        try? await channel?.close()
        for channel in state.withLockedValue({ Array($0.openChannels.values) }) { try? await channel.close() }
    }
}

/// The reaction of a `MisbehavingRedis` to a command.
package enum ScriptedReply: Hashable, Sendable {
    /// Sends nothing. The connection stays open.
    case silence
    /// Sends these bytes in one write.
    case bytes([UInt8])
    /// Sends these bytes one by one, usually each in its own packet.
    case oneByOne([UInt8])
    /// Sends these bytes and closes the connection.
    case bytesThenClose([UInt8])

    /// Closes the connection without a reply.
    package static let close = ScriptedReply.bytesThenClose([])

    /// Sends this text in one write.
    package static func text(_ text: String) -> ScriptedReply {
        .bytes(Array(text.utf8))
    }
}

/// A command that a `MisbehavingRedis` received.
package struct ReceivedCommand: Hashable, Sendable {
    /// The number of the connection, from 0.
    package var connection: Int
    /// The number of the command on its connection, from 0.
    package var index: Int
    /// The command's name and arguments.
    package var arguments: [[UInt8]]

    package init(connection: Int, index: Int, arguments: [[UInt8]]) {
        self.connection = connection
        self.index = index
        self.arguments = arguments
    }

    /// The arguments as text, with invalid UTF-8 replaced.
    package var text: [String] { arguments.map { String(decoding: $0, as: UTF8.self) } }
}

extension RedisReply {
    /// The bytes of the reply, in RESP2.
    package var wire: [UInt8] {
        switch self {
        case .status(let text): Array("+\(text)\r\n".utf8)
        case .error(let error): Array("-\(error.message)\r\n".utf8)
        case .integer(let value): Array(":\(value)\r\n".utf8)
        case .null: Array("$-1\r\n".utf8)
        case .bulk(let bytes): Array("$\(bytes.count)\r\n".utf8) + bytes + Array("\r\n".utf8)
        case .array(let elements): Array("*\(elements.count)\r\n".utf8) + elements.flatMap(\.wire)
        }
    }
}

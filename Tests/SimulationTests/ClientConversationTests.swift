import FoundationEssentials
import RedisClient
import Testing

@testable import Simulation

/// The commands that client libraries send when they connect, ping, subscribe and try a transaction. Those of redis-py
/// are recorded, and the others come from the libraries' sources. The replies of the RESP API must let each library
/// continue.
@Suite("Conversations of client libraries", .timeLimit(.minutes(2)))
struct ClientConversationTests {
    struct Conversation: Decodable, Sendable, CustomTestStringConvertible {
        var client: String
        var version: String
        var kind: String
        var `case`: String
        /// The commands of each write. Each character is one byte (Latin-1).
        var writes: [[[String]]]

        var testDescription: String { "\(client) \(version), \(kind): \(`case`)" }
    }

    static let all: [Conversation] = {
        let path = #filePath.replacing("ClientConversationTests.swift", with: "ClientConversations.json")
        guard let data = FileManager.default.contents(atPath: path),
            let read = try? JSONDecoder().decode([Conversation].self, from: data)
        else { return [] }
        return read
    }()

    @Test("The conversations include all major libraries")
    func conversationsIncludeMajorLibraries() {
        let clients = Set(Self.all.map(\.client))
        #expect(
            clients.isSuperset(of: ["redis-py", "go-redis", "node-redis", "ioredis", "jedis", "lettuce", "StackExchange.Redis"]))
        #expect(Self.all.count > 150)
    }

    @Test(
        "Each command has one answer in order, nothing else arrives, and the connection stays open", arguments: all
    )
    func eachCommandHasOneAnswerInOrder(conversation: Conversation) throws {
        let stage = Stage()
        let client = stage.connect(to: 0)
        for write in conversation.writes {
            client.send(write)
            stage.run(milliseconds: 20)
        }
        // Any unrequested message would arrive before this answer.
        client.send([["ECHO", "over"]])
        stage.run(milliseconds: 20)
        let replies = try client.replies()
        let commands = conversation.writes.flatMap { $0 } + [["ECHO", "over"]]
        #expect(client.isOpen)
        #expect(replies.count == commands.count, "\(replies)")
        for (command, reply) in zip(commands, replies) { check(command, reply) }
    }

    private func check(_ command: [String], _ answer: RedisReply) {
        let words = command.map { $0.uppercased() }
        switch words[0] {
        case "ECHO": #expect(answer == .bulk(Array(command[1].unicodeScalars.map { UInt8($0.value) })))
        case "MULTI": #expect(answer == .status("OK"))
        case "EXEC":
            guard case .error(let error) = answer else { return #expect(Bool(false), "EXEC: \(answer)") }
            #expect(error.message.hasPrefix("EXECABORT "))
        case "CLIENT" where ["SETINFO", "SETNAME"].contains(words[1]): #expect(answer == .status("OK"), "\(command)")
        case "HELLO": #expect(answer.array?.isEmpty == false, "\(command): \(answer)")
        case "PING", "SUBSCRIBE", "SELECT": break
        // Libraries accept an error or any answer.
        default: break
        }
    }
}

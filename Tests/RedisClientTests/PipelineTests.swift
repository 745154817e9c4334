import InterlockProcesses
import InterlockTesting
import NIOCore
import NIOEmbedded
import Testing

@testable import RedisClient

@Suite("Pipelining", .timeLimit(.minutes(1)))
struct PipelineTests {
    @Test("10,000 commands are answered in order, each with its own reply")
    func order() async throws {
        try await RedisServer.withServer { server in
            let pipeline = PinnedPipeline(server.configuration)
            await pipeline.connect()
            let replies = await pipeline.batch((0..<10_000).map { AnyCommand(["ECHO", "\($0)"]) })
            #expect(replies.map(\.number) == Array(0..<10_000))
            #expect(replies.allSatisfy { $0.result == .success(.bulk("\($0.number)")) })
            #expect(await pipeline.sentCommandCount == 10_000)
            try await pipeline.close()
        }
    }

    @Test("An error reply fails only its own command")
    func errorsAmongReplies() async throws {
        try await RedisServer.withServer { server in
            let pipeline = PinnedPipeline(server.configuration)
            await pipeline.connect()
            let replies = await pipeline.batch(["a", "b", "c"].map { AnyCommand($0 == "b" ? ["NONSENSE"] : ["ECHO", $0]) })
            #expect(replies[0].result == .success(.bulk("a")))
            guard case .success(.error(let error)) = replies[1].result else {
                Issue.record("expected an error, got \(replies[1].result)")
                return
            }
            #expect(error.code == .server(.error))
            #expect(replies[2].result == .success(.bulk("c")))
            try await pipeline.close()
        }
    }

    @Test("Commands beyond the pending limit fail without being sent")
    func commandsBeyondPendingLimitFailWithoutBeingSent() async throws {
        try await MisbehavingRedis.withServer { _ in
            .silence
        } _: { server in
            var configuration = server.configuration
            configuration.maximumPending = 3
            configuration.commandTimeout = .milliseconds(200)
            let pipeline = PinnedPipeline(configuration)
            await pipeline.connect()
            let replies = await pipeline.batch((0..<5).map { AnyCommand(["ECHO", "\($0)"]) })
            // Commands beyond the limit fail immediately, the others when they time out.
            #expect(replies.map(\.number) == [3, 4, 0, 1, 2])
            let codes = replies.map { reply -> RedisError.Code? in
                if case .failure(let error) = reply.result { error.code } else { nil }
            }
            #expect(codes == [.overloaded, .overloaded, .timedOut, .timedOut, .timedOut])
            try await eventually("the server received the commands") { server.commands.count >= 3 }
            #expect(server.commands.map(\.text) == (0..<3).map { ["ECHO", "\($0)"] })
            #expect(await pipeline.sentCommandCount == 3)
            try await pipeline.close()
        }
    }

    @Test("Replies that arrive a byte at a time are assembled")
    func repliesArrivingByteByByteAreAssembled() async throws {
        try await MisbehavingRedis.withServer { command in
            .oneByOne(Array("*2\r\n$\(command.text[1].utf8.count)\r\n\(command.text[1])\r\n:\(command.index)\r\n".utf8))
        } _: { server in
            let pipeline = PinnedPipeline(server.configuration)
            await pipeline.connect()
            let replies = await pipeline.batch((0..<10).map { AnyCommand(["ECHO", "value \($0)"]) })
            #expect(
                replies.map(\.result)
                    == (0..<10).map { .success(.array([.bulk("value \($0)"), .integer(Int64($0))])) })
            try await pipeline.close()
        }
    }
}

@Suite("Writes")
struct FlushTests {
    @Test("The commands of one tick of the event loop are sent in one write")
    func oneWrite() throws {
        let channel = EmbeddedChannel()
        let handler = RedisChannelHandler(
            configuration: RedisConfiguration(address: .host("localhost", port: 6379)), eventLoop: channel.eventLoop)
        try channel.pipeline.syncOperations.addHandler(handler)
        for tick in 0..<2 {
            for _ in 0..<3 { handler.send(AnyCommand(["TICK", "\(tick)"])) { _ in } }
            #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
            channel.embeddedEventLoop.run()
            let written = try #require(try channel.readOutbound(as: ByteBuffer.self))
            #expect(String(buffer: written) == String(repeating: "*2\r\n$4\r\nTICK\r\n$1\r\n\(tick)\r\n", count: 3))
            #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
        }
        _ = try channel.finish()
    }
}

import NIOCore
import NIOEmbedded
import Testing

@testable import Hiredis

@Suite("Writes")
struct FlushTests {
    @Test("commands of one tick of the event loop leave in one write")
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

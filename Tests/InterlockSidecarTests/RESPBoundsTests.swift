import Glibc
import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import RedisClient
import Testing

@testable import SidecarListeners

/// Exceeds each limit of the RESP API in docs/reference/bounds.md by one, while other clients must be served.
@Suite("RESP API: limits of one connection", .timeLimit(.minutes(2)))
struct RESPBoundsTests {
    /// Acquires and releases a lock as another client.
    private static func expectServed(by api: RESPTestAPI) async throws {
        let token = try #require(try await api.send("LOCK.ACQUIRE", "of-another", "60000").array?.first?.text)
        #expect(try await api.send("LOCK.RELEASE", "of-another", token) == .integer(1))
    }

    /// Returns `count` commands that each acquire a lock.
    private static func acquires(_ count: Int, _ name: String, _ option: String = "") -> String {
        (0..<count).map { "LOCK.ACQUIRE \(name)-\($0) 600000\(option)\r\n" }.joined()
    }

    private static func count(_ part: String, in text: String) -> Int {
        text.split(separator: part, omittingEmptySubsequences: false).count - 1
    }

    /// Collects the replies on a connection that stays open.
    private final class ReplyCollector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let end: String
        private let promise: EventLoopPromise<String>
        private var received = ""

        /// Creates a handler that succeeds `promise` once the received text ends with `end`.
        init(until end: String, _ promise: EventLoopPromise<String>) {
            self.end = end
            self.promise = promise
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            received += String(buffer: unwrapInboundIn(data))
            if received.hasSuffix(end) { promise.succeed(received) }
        }

        func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.ioOnClosedChannel) }
    }

    /// Sends `commands` on a connection that stays open, and returns the connection and the replies.
    private static func sendKeepingOpen(at api: RESPTestAPI, _ commands: String) async throws -> (any Channel, String) {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let replies = loop.makePromise(of: String.self)
        let channel = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ReplyCollector(until: "$4\r\ndone\r\n", replies))
                }
            }
            .connect(host: "127.0.0.1", port: api.port).get()
        try await channel.writeAndFlush(ByteBuffer(string: commands + "ECHO done\r\n"))
        return (channel, try await replies.futureResult.get())
    }

    @Test("At most 1,024 commands are pending, and further ones start as replies are sent")
    func inFlight() async throws {
        try await RESPTestAPI.with { api in
            let token = try await api.send("LOCK.ACQUIRE", "orders", "60000").array?.first?.text ?? ""
            let redis = RedisClient(configuration: api.redis.configuration)
            try await redis.connect()
            let count = AnyCommand(["EVAL", "return #redis.call('KEYS', 'interlock:lock:{mine-*')", "0"])
            async let replies = api.exchange(
                "LOCK.ACQUIRE orders 30000 WAIT 50000\r\n" + Self.acquires(3000, "mine") + "QUIT\r\n")
            try await eventually("all 1,023 replies but the waiting one arrive") { try await redis.send(count) == .integer(1023) }
            for _ in 0..<20 { try await Self.expectServed(by: api) }
            #expect(try await redis.send(count) == .integer(1023))
            #expect(try await api.send("LOCK.RELEASE", "orders", token) == .integer(1))
            let grantCount = Self.count("*3\r\n", in: try await replies)
            #expect(grantCount == 3001)
            await redis.close()
        }
    }

    @Test("While Redis is busy, a connection may have 16 pending commands and one more each millisecond")
    func share() async throws {
        try await RESPTestAPI.with(redisTimeout: .seconds(30)) { api in
            let before = await api.coordinator.status.redisCommandCount
            func commandCount() async -> Int64 { await api.coordinator.status.redisCommandCount - before }
            await api.redis.pause()
            let start = ContinuousClock.now
            async let first = api.exchange(Self.acquires(500, "first") + "QUIT\r\n")
            try await eventually("Redis is busy") { await commandCount() >= 64 }
            async let second = api.exchange(Self.acquires(500, "second") + "QUIT\r\n")
            try await eventually("commands of the second client are sent") { await commandCount() >= 64 + 16 }
            for _ in 0..<20 { #expect(try await api.send("PING").text == "PONG") }
            let all = await commandCount()
            // The total includes the sidecar's heartbeats.
            #expect(Double(all) < 64 + 16 + 10 + 2 * ((ContinuousClock.now - start) / .milliseconds(1)))
            await api.redis.resume()
            for text in [try await first, try await second] {
                #expect(Self.count("*3\r\n", in: text) + Self.count("-UNAVAILABLE", in: text) == 500)
            }
        }
    }

    @Test("A client that does not read for too long is disconnected, even if little data waits")
    func unread() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = "\(folder.path)/resp.sock"
        try await RESPTestAPI.with(unix: path, stallTimeout: .milliseconds(200)) { api in
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .connect(unixDomainSocketPath: path).get()
            // The replies exceed the socket buffers, but not what the listener may buffer.
            let echo = "*2\r\n$4\r\nECHO\r\n$60000\r\n" + String(repeating: "x", count: 60_000) + "\r\n"
            channel.writeAndFlush(ByteBuffer(string: String(repeating: echo, count: 40)), promise: nil)
            try await eventually("both clients are connected") { try await api.connections() == 2 }
            try await eventually("the connection is closed") {
                try await Self.expectServed(by: api)
                return try await api.connections() == 1
            }
            try? await channel.close()
        }
    }

    @Test("Commands after a protocol error are not run, and delay no other client")
    func behindAnError() async throws {
        try await RESPTestAPI.with { api in
            let ignored = String(repeating: "LOCK.ACQUIRE ghost 60000\r\n", count: 100_000)
            async let replies = api.exchange("*1\r\n:1\r\n" + ignored)
            for _ in 0..<20 { try await Self.expectServed(by: api) }
            #expect(try await replies.hasPrefix("-ERR Protocol error"))
            #expect(try await api.send("LOCK.INFO", "ghost") == .null)
        }
    }

    /// Closes the connection as soon as the first replies arrive.
    private final class EarlyCloser: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.close(promise: nil) }
    }

    @Test("Commands that arrived before their client disconnected run, including those that wait for a slice")
    func disconnectWhileWaiting() async throws {
        try await RESPTestAPI.with { api in
            let token = try #require(try await api.send("LOCK.ACQUIRE", "orders", "600000").array?.first?.text)
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(EarlyCloser()) }
                }
                .connect(host: "127.0.0.1", port: api.port).get()
            // With a linger time of 0 seconds, the client closes with an immediate reset.
            let options = try #require(channel as? any SocketOptionProvider)
            try await options.setSoLinger(Glibc.linger(l_onoff: 1, l_linger: 0)).get()
            // One read receives all commands, and the first slice executes some of them.
            let commands = String(repeating: "INFO\r\n", count: 40) + "LOCK.RELEASE orders \(token)\r\n"
            try await channel.writeAndFlush(ByteBuffer(string: commands))
            try await channel.closeFuture.get()
            try await eventually("the client is disconnected") { try await api.connections() == 1 }
            try await eventually(within: .seconds(5), "the lock is released") {
                try await api.send("LOCK.INFO", "orders") == .null
            }
        }
    }

    @Test("The linked leases of a disconnected client are released even while Redis is busy")
    func disconnectWhileRedisIsBusy() async throws {
        try await RESPTestAPI.with(redisTimeout: .seconds(30)) { api in
            let (channel, _) = try await Self.sendKeepingOpen(at: api, Self.acquires(40, "mine", " LINKED"))
            await api.redis.pause()
            func commandCount() async -> Int64 { await api.coordinator.status.redisCommandCount }
            let before = await commandCount()
            async let others = api.exchange(Self.acquires(64, "other") + "QUIT\r\n")
            try await eventually("Redis is busy") { await commandCount() >= before + 64 }
            let sentToOthers = await commandCount()
            try await channel.close()
            try await eventually(within: .seconds(5), "the releases are sent") { await commandCount() >= sentToOthers + 40 }
            await api.redis.resume()
            _ = try await others
        }
    }

    @Test(
        "A sidecar links 100,000 leases and watches as many, within separate limits",
        arguments: [true, false])
    func followedLeases(areLinked: Bool) async throws {
        try await RESPTestAPI.with { api in
            var channels: [any Channel] = []
            for connection in 0..<10 {
                let enableLosses = "HELLO 3\r\nCLIENT LOSSES ON\r\n"
                let commands = Self.acquires(RESPConnection.maximumFollowed, "lock-\(connection)", areLinked ? " LINKED" : "")
                let (channel, text) = try await Self.sendKeepingOpen(at: api, areLinked ? commands : enableLosses + commands)
                #expect(Self.count("*3\r\n", in: text) == RESPConnection.maximumFollowed)
                channels.append(channel)
            }
            for isLinked in [true, false] {
                let name = "one-more-\(isLinked)"
                let request = try LockRequest(name: ResourceName(name), ttlMilliseconds: 60_000)
                let lease = try #require(try await api.coordinator.acquireLock(request))
                let followed = try? await api.coordinator.followLease(lease, isLinked: isLinked)
                #expect((followed != nil) == (isLinked != areLinked))
            }
            if areLinked {
                #expect(try await api.errorCode("LOCK.ACQUIRE", "one-more", "60000", "LINKED") == "UNAVAILABLE")
            }
            try await Self.expectServed(by: api)
            for channel in channels { try await channel.close() }
        }
    }
}

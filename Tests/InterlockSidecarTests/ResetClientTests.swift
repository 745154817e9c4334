import Interlock
import InterlockCore
import Logging
import NIOCore
import NIOEmbedded
import RedisClient
import Testing

@testable import SidecarListeners
@testable import SidecarTelemetry

/// A write to a client that has reset the connection fails, and NIO drains the socket within that write.
@Suite("Clients that reset during a write")
struct ResetClientTests {
    /// Makes the first write of a connection fail as it does after a reset.
    private final class Reset: ChannelOutboundHandler {
        typealias OutboundIn = IOData
        typealias OutboundOut = IOData

        private var unread: ByteBuffer?

        init(unread: ByteBuffer) {
            self.unread = unread
        }

        func flush(context: ChannelHandlerContext) {
            guard let unread else { return }
            self.unread = nil
            context.fireChannelRead(NIOAny(unread))
            context.fireChannelReadComplete()
            context.close(promise: nil)
        }
    }

    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test("HTTP/2 is selected once, and the connection ends")
    func http2IsSelectedOnce() throws {
        let eventLoop = EmbeddedEventLoop()
        let preface = ByteBuffer(string: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        let channel = EmbeddedChannel(handler: Reset(unread: ByteBuffer(repeating: 0, count: 9)), loop: eventLoop)
        channel.connect(to: try SocketAddress(unixDomainSocketPath: "/client"), promise: nil)
        let api = HTTPListenerContext(
            router: HTTPRouter(routes: [], metrics: PrometheusRegistry()),
            gate: HTTPGate(access: AccessControl(keys: []), hosts: ["a"]), isTLS: false, maximumConnections: 4,
            firstRequestTimeout: .seconds(10), idleTimeout: .seconds(60),
            scheduler: SliceScheduler(eventLoop: eventLoop) { 0 }, logger: Self.logger)
        try api.serve(channel)
        try channel.writeInbound(preface)
        eventLoop.run()
        #expect(!channel.isActive)
        #expect(api.connectionCount == 0)
    }

    @Test("RESP commands are run once each, and the connection ends")
    func resp() async throws {
        let eventLoop = NIOAsyncTestingEventLoop()
        let channel = NIOAsyncTestingChannel(loop: eventLoop)
        try await channel.connect(to: SocketAddress(unixDomainSocketPath: "/client")).get()
        let configuration = InterlockConfiguration(redis: .init(address: .host("127.0.0.1", port: 1)), host: "test")
        let coordinator = Coordinator(configuration: configuration, eventLoop: eventLoop, logger: Self.logger)
        let api = try await eventLoop.executeInContext {
            let api = RESPListenerContext(
                commands: RESPCommands(coordinator: coordinator, liveView: { _, _ in }), access: AccessControl(keys: []),
                maximumConnections: 4,
                stallTimeout: .seconds(10), scheduler: SliceScheduler(eventLoop: eventLoop) { 0 }, logger: Self.logger)
            try channel.pipeline.syncOperations.addHandler(Reset(unread: ByteBuffer(string: "PING\r\n")))
            try api.serve(channel)
            return NIOLoopBound(api, eventLoop: eventLoop)
        }
        // The replies exceed what is buffered until the end of the tick.
        try await channel.writeInbound(ByteBuffer(string: String(repeating: "COMMAND DOCS\r\n", count: 100)))
        await eventLoop.run()
        #expect(!channel.isActive)
        #expect(try await eventLoop.executeInContext { api.value.connectionCount } == 0)
    }
}

package import NIOCore
internal import NIOPosix

/// Opens connections to HTTP servers.
package protocol HTTPDialer: Sendable {
    /// Opens a connection within `timeout`, without TLS.
    /// - Parameter initialize: adds the first handlers to the channel, before it can receive anything.
    /// - Returns: an active channel of bytes on `eventLoop`.
    func dial(
        host: String, port: Int, timeout: TimeAmount, on eventLoop: any EventLoop,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
    ) -> EventLoopFuture<any Channel>
}

/// Dials over TCP.
package struct TCPDialer: HTTPDialer {
    private static let readAllocator = AdaptiveRecvByteBufferAllocator(minimum: 1 << 10, initial: 1 << 14, maximum: 1 << 16)

    package init() {}

    package func dial(
        host: String, port: Int, timeout: TimeAmount, on eventLoop: any EventLoop,
        initialize: @escaping @Sendable (any Channel) -> EventLoopFuture<Void>
    ) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: eventLoop)
            .connectTimeout(timeout)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .channelOption(.maxMessagesPerRead, value: 1)
            // The initial buffer holds a typical head, so that one read delivers it. A connection is reused only if the
            // read in which a response ends contains nothing else.
            .channelOption(.recvAllocator, value: Self.readAllocator)
            .channelInitializer(initialize)
            .connect(host: host, port: port)
    }
}
